#pragma once

#include <string>

namespace accrue {

// An Error unless this address, or the one that this name stands for, is that of one of this machine's network interfaces. Gloo
// would crash, or leak, over another.
void require_local_address(const std::string& address);

}  // namespace accrue
