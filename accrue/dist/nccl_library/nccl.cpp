// NCCL's functions by its own names, found in its library when the first of them is called: the program works where it is not
// installed, and says why workers' sums then pass through their hosts.
#include <string>

#include <dlfcn.h>
#include <nccl.h>

#include "accrue/base/error.h"

namespace {

constexpr const char* kLibrary = "libnccl.so.2";

// Where the system looks, or else where a toolkit is, the one that the program was built with first.
void* open_library() {
    std::string why;
    for (const char* folder : {"", ACCRUE_CUDA_LIBRARIES "/", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"}) {
        if (void* const library = dlopen(accrue::cat(folder, kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
            library != nullptr) {
            return library;
        }
        const char* const text = dlerror();
        why = why.empty() && text != nullptr ? text : why;
    }
    throw accrue::Error(accrue::cat("NCCL cannot be loaded: ", why));
}

void* the_library() {
    static void* const library = open_library();
    return library;
}

// The library's function of this name.
template <class Function>
Function* found(const char* name) {
    auto* const function = reinterpret_cast<Function*>(dlsym(the_library(), name));
    if (function == nullptr) {
        throw accrue::Error(accrue::cat("the NCCL that was found has no ", name, ": it is too old"));
    }
    return function;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
    static auto* const call = found<decltype(ncclGetVersion)>("ncclGetVersion");
    return call(version);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static auto* const call = found<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
    return call(id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    static auto* const call = found<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
    return call(communicator, size, id, rank, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
    static auto* const call = found<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
    return call(communicator, state);
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
    static auto* const call = found<decltype(ncclCommAbort)>("ncclCommAbort");
    return call(communicator);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
    static auto* const call = found<decltype(ncclAllReduce)>("ncclAllReduce");
    return call(from, to, count, type, operation, communicator, stream);
}

const char* ncclGetErrorString(ncclResult_t result) {
    static auto* const call = found<decltype(ncclGetErrorString)>("ncclGetErrorString");
    return call(result);
}

const char* ncclGetLastError(ncclComm_t communicator) {
    static auto* const call = found<decltype(ncclGetLastError)>("ncclGetLastError");
    return call(communicator);
}
