#include "accrue/kernels/operation/activations.h"

namespace accrue::op {

void Gelu::check() const {
    require_alike(kName, "output", output, input);
}

void Gelu::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(input) + bytes_in(output));
}

void GeluGrad::check() const {
    require_alike(kName, "d_output", d_output, input);
    require_alike(kName, "d_input", d_input, input);
    require_sums(kName, "d_bias", d_bias, grains, d_input.columns);
}

void GeluGrad::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(d_output) + bytes_in(input) + bytes_in(d_input));
    count_sums_of_written(work, d_bias);
}

void Swiglu::check() const {
    require_equal(kName, "rows of gate_up", gate_up.rows, output.rows);
    require_equal(kName, "columns of gate_up", gate_up.columns, 2 * output.columns);
}

void Swiglu::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(gate_up) + bytes_in(output));
}

void SwigluGrad::check() const {
    require_equal(kName, "rows of gate_up", gate_up.rows, d_output.rows);
    require_equal(kName, "columns of gate_up", gate_up.columns, 2 * d_output.columns);
    require_alike(kName, "d_gate_up", d_gate_up, gate_up);
}

void SwigluGrad::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(d_output) + bytes_in(gate_up) + bytes_in(d_gate_up));
}

}  // namespace accrue::op
