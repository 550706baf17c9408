#include "accrue/kernels/cuda/cudnn_library.h"

#include <dlfcn.h>

namespace accrue::cuda {
namespace {

// The part that has the graph interface, and the library as a whole, which loads that part.
constexpr std::array<const char*, 2> kFiles = {"libcudnn_graph.so.9", "libcudnn.so.9"};

}  // namespace

std::unique_ptr<Cudnn> Cudnn::load(std::string& why_not) {
    for (const char* file : kFiles) {
        void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            const char* const text = dlerror();
            why_not = text != nullptr ? text : cat(file, " cannot be loaded");
            continue;
        }
        std::unique_ptr<Cudnn> found(new Cudnn(library));
        if (found->find_all(why_not)) {
            return found;
        }
    }
    return nullptr;
}

// It stays loaded: it has threads and memory of its own, which end with the process.
Cudnn::~Cudnn() = default;

template <class Function>
bool Cudnn::find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
}

bool Cudnn::find_all(std::string& why_not) {
    const bool all = find(create, "cudnnCreate") && find(destroy, "cudnnDestroy") &&
                     find(set_stream, "cudnnSetStream") && find(create_descriptor, "cudnnBackendCreateDescriptor") &&
                     find(destroy_descriptor, "cudnnBackendDestroyDescriptor") &&
                     find(set_attribute, "cudnnBackendSetAttribute") &&
                     find(get_attribute, "cudnnBackendGetAttribute") && find(finalize, "cudnnBackendFinalize") &&
                     find(execute, "cudnnBackendExecute") && find(get_version_, "cudnnGetVersion") &&
                     find(error_text_, "cudnnGetErrorString") && find(last_error_text_, "cudnnGetLastErrorString");
    if (!all) {
        why_not = "the cuDNN that was found lacks functions of its graph interface";
    }
    return all;
}

int64_t Cudnn::version() const {
    return static_cast<int64_t>(get_version_());
}

std::string Cudnn::version_text() const {
    const int64_t all = version();
    return cat(all / 10000, '.', all / 100 % 100, '.', all % 100);
}

void Cudnn::require(cudnnStatus_t result, std::string_view doing) const {
    if (result == CUDNN_STATUS_SUCCESS) {
        return;
    }
    std::array<char, 2048> text{};
    last_error_text_(text.data(), text.size());
    throw Error(cat("cuDNN ", version_text(), " failed while ", doing, ": ", error_text_(result), " (",
                    static_cast<int>(result), ")", text[0] != '\0' ? ": " : "", std::string_view(text.data()),
                    ". CUDNN_LOGLEVEL_DBG=3 and CUDNN_LOGDEST_DBG=stderr make it say more."));
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, cudnnBackendDescriptorType_t type, std::string_view name)
    : library_(&library), name_(name) {
    library.require(library.create_descriptor(type, &descriptor_), cat("making a descriptor of ", name));
}

CudnnDescriptor::~CudnnDescriptor() {
    if (descriptor_ != nullptr) {
        library_->destroy_descriptor(descriptor_);
    }
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(other.library_), name_(other.name_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

void CudnnDescriptor::complete() {
    library_->require(library_->finalize(descriptor_), cat("completing ", name_));
}

void CudnnDescriptor::set_values(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
                                 const void* values) {
    library_->require(library_->set_attribute(descriptor_, attribute, type, count, values),
                      cat("setting attribute ", static_cast<int>(attribute), " of ", name_));
}

int64_t CudnnDescriptor::get_values(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                                    int64_t count, void* values) const {
    int64_t found = 0;
    library_->require(library_->get_attribute(descriptor_, attribute, type, count, &found, values),
                      cat("reading attribute ", static_cast<int>(attribute), " of ", name_));
    return found;
}

}  // namespace accrue::cuda
