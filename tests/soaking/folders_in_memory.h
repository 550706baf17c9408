#pragma once

#include <cstdlib>

#include <unistd.h>

namespace accrue::soaking {

// Thousands of syncs are a matter of minutes on a disk and of nothing in memory. To be made before temporary folders are.
struct FoldersInMemory {
    FoldersInMemory() {
        if (access("/dev/shm", W_OK) == 0) {
            setenv("TMPDIR", "/dev/shm", 1);
        }
    }
};

}  // namespace accrue::soaking
