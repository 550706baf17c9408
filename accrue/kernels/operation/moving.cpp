#include "accrue/kernels/operation/moving.h"

namespace accrue::op {

void Cast::check() const {
    require_alike(kName, "output", output, input);
    require_rows(kName, dropout, output.rows);
}

void Cast::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(input) + bytes_in(output));
}

void FillZero::count(WorkByPart& work) const {
    work.add(part(), 0, std::ssize(memory));
}

void Upload::check() const {
    require_equal(kName, "bytes of the device", std::ssize(device), std::ssize(host));
}

void Upload::count(WorkByPart& work) const {
    work.add(part(), 0, 2 * std::ssize(host));
}

void Download::check() const {
    require_equal(kName, "bytes of the host", std::ssize(host), std::ssize(device));
}

void Download::count(WorkByPart& work) const {
    work.add(part(), 0, 2 * std::ssize(host));
}

void AddGradient::check() const {
    require_equal(kName, "rows of values", values.rows, sum.rows);
    require_equal(kName, "columns of values", values.columns, sum.columns);
    require_equal(kName, "elements from one row of values to the next", values.stride, sum.columns);
}

void AddGradient::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(values) + bytes_in(sum));
}

void AddSums::check() const {
    require_equal(kName, "elements of others", others.columns, sums.columns);
}

void AddSums::count(WorkByPart& work) const {
    work.add(part(), 0, 3 * sums.columns * static_cast<int64_t>(sizeof(int64_t)));
}

}  // namespace accrue::op
