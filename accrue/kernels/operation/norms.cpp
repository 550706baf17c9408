#include "accrue/kernels/operation/norms.h"

namespace accrue::op {
namespace {

void require_runs(std::string_view operation, const AnyConstView& input, View<const float> gain,
                  View<const float> inverse_rms) {
    require_equal(operation, "columns of input", input.columns, inverse_rms.columns * gain.columns);
    require_equal(operation, "rows of inverse_rms", inverse_rms.rows, input.rows);
}

// A gradient of rows that is read for each of the sums, with what else is read beside it.
void count_sums(WorkByPart& work, Part part, std::span<const SumView> sums, std::span<const RowRange> grains,
                int64_t bytes_of_row) {
    for (size_t grain = 0; grain < sums.size(); ++grain) {
        work.add(part, 0, grains[grain].rows * bytes_of_row);
    }
}

int64_t bytes_of_row(const AnyConstView& view) {
    return view.columns * bytes_of(view.dtype);
}

}  // namespace

void RmsNorm::check() const {
    require_runs(kName, input, gain, inverse_rms);
    require_alike(kName, "output", output, input);
}

void RmsNorm::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(input) + bytes_in(output));
}

void LayerNorm::check() const {
    require_equal(kName, "columns of gain", gain.columns, input.columns);
    require_equal(kName, "columns of bias", bias.columns, input.columns);
    require_alike(kName, "output", output, input);
    require_equal(kName, "rows of mean", mean.rows, input.rows);
    require_equal(kName, "rows of inverse_deviation", inverse_deviation.rows, input.rows);
}

void LayerNorm::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(input) + bytes_in(output));
}

void RmsNormBackward::check() const {
    require_runs(kName, input, gain, inverse_rms);
    require_alike(kName, "d_output", d_output, input);
    require_sums(kName, "d_gain", d_gain, grains, gain.columns);
    if (d_input.empty() == d_stream.empty()) {
        throw Error("rms_norm_backward takes either d_input or d_stream");
    }
    if (d_stream.empty()) {
        require_alike(kName, "d_input", d_input, input);
    } else {
        require_alike(kName, "d_stream", d_stream, input);
    }
    if (!copy.empty()) {
        require_alike(kName, "copy", copy, d_stream);
    }
    require_sums(kName, "copy_sums", copy_sums, grains, copy.columns);
}

void RmsNormBackward::count(WorkByPart& work) const {
    work.add(part(), 0,
             bytes_in(d_output) + bytes_in(input) + bytes_in(d_input) + 2 * bytes_in(d_stream) + bytes_in(copy));
    count_sums(work, part(), d_gain, grains, bytes_of_row(d_output) + bytes_of_row(input));
    count_sums_of_written(work, copy_sums);
}

void LayerNormBackward::check() const {
    require_equal(kName, "columns of gain", gain.columns, input.columns);
    require_alike(kName, "d_output", d_output, input);
    require_alike(kName, "d_stream", d_stream, input);
    require_equal(kName, "rows of mean", mean.rows, input.rows);
    require_equal(kName, "rows of inverse_deviation", inverse_deviation.rows, input.rows);
    require_sums(kName, "d_gain", d_gain, grains, gain.columns);
    require_sums(kName, "d_bias", d_bias, grains, gain.columns);
    if (!copy.empty()) {
        require_alike(kName, "copy", copy, d_stream);
    }
    require_sums(kName, "copy_sums", copy_sums, grains, copy.columns);
}

void LayerNormBackward::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(d_output) + bytes_in(input) + 2 * bytes_in(d_stream) + bytes_in(copy));
    count_sums(work, part(), d_gain, grains, bytes_of_row(d_output) + bytes_of_row(input));
    count_sums_of_written(work, copy_sums);
    count_sums(work, Part::elementwise, d_bias, grains, bytes_of_row(d_output));
}

}  // namespace accrue::op
