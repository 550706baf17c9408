#pragma once

namespace accrue {

// Thrown when nobody reads our output any more (`| head`): the command ends, and nothing is wrong.
struct OutputClosed {};

// For commands whose output is what they are for: brings it out, and fails if any of it could not be written, with
// OutputClosed, or with an Error where, say, the disk is full.
void flush_output();

// The same for a write that has failed with this error number.
[[noreturn]] void output_failed(int error);

}  // namespace accrue
