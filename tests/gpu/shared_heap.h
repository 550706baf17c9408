#pragma once

namespace accrue::conformance {

// From here on the GPU sees what is allocated, also what was before. Not before a test asks for a device: a sanitizer checks
// nothing if CUDA has begun while the program's own objects were made.
void share_heap();

}  // namespace accrue::conformance
