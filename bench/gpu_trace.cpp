// What a GPU does in the last part of a program, by CUPTI: how long nothing ran, and which kernels took the time. No program
// is linked with it; the driver loads it:
//     export CUDA_INJECTION64_PATH=$PWD/build/release/bench/libaccrue_gpu_trace.so
//     ACCRUE_TRACE=graphs build/release/bench/accrue_bench_gpu_steps --micro-batch 1 --grain 1
// ACCRUE_TRACE: "graphs" (a graph counts as one piece of work, and is slowed down by nothing) or "kernels" (each kernel of a
// graph by itself, which makes it slower). ACCRUE_TRACE_MS: how many milliseconds before the end of the last kernel (300).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <cupti.h>
#include <cxxabi.h>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;

struct Work {
    uint64_t start = 0;  // nanoseconds
    uint64_t end = 0;
    std::string name;
    bool is_copy = false;
};

struct Trace {
    std::mutex mutex;
    std::vector<Work> work;
};

Trace& trace() {
    static Trace* const one = new Trace;  // is there until the process is gone
    return *one;
}

std::string readable(const char* name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string result = status == 0 ? text : name;
    std::free(text);
    const size_t arguments = result.find('(', result.find("anonymous namespace)::") == std::string::npos
                                                  ? 0
                                                  : result.find("anonymous namespace)::") + 22);
    return result.substr(0, std::min<size_t>(arguments, 110));
}

void note(const CUpti_Activity& record) {
    switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
            trace().work.push_back({kernel.start, kernel.end, readable(kernel.name), false});
            break;
        }
        case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
            const auto& graph = reinterpret_cast<const CUpti_ActivityGraphTrace2&>(record);
            trace().work.push_back({graph.start, graph.end, "a graph", false});
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
            trace().work.push_back({copy.start, copy.end, "copy", true});
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
            trace().work.push_back({set.start, set.end, "memset", false});
            break;
        }
        default:
            break;
    }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
    *bytes = kBufferBytes;
    *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
    const std::lock_guard lock(trace().mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
        note(*record);
    }
    std::free(buffer);
}

void print_idle(const std::vector<Work>& work, uint64_t start, uint64_t end) {
    uint64_t busy_until = start;
    uint64_t idle = 0;
    std::vector<uint64_t> gaps;
    for (const Work& one : work) {
        if (one.start > busy_until) {
            gaps.push_back(one.start - busy_until);
            idle += gaps.back();
        }
        busy_until = std::max(busy_until, one.end);
    }
    std::sort(gaps.rbegin(), gaps.rend());
    const double whole = static_cast<double>(end - start);
    std::fprintf(stderr, "trace: %.2f ms, %zu pieces of work, idle %.2f%%, %zu gaps; the largest, us:", whole / 1e6,
                 work.size(), 100 * static_cast<double>(idle) / whole, gaps.size());
    for (size_t i = 0; i < std::min<size_t>(gaps.size(), 12); ++i) {
        std::fprintf(stderr, " %.1f", static_cast<double>(gaps[i]) / 1e3);
    }
    std::fprintf(stderr, "\n");
}

void print_names(const std::vector<Work>& work, uint64_t start, uint64_t end) {
    struct Total {
        uint64_t nanoseconds = 0;
        int64_t count = 0;
    };
    std::map<std::string, Total> totals;
    for (const Work& one : work) {
        totals[one.name].nanoseconds += one.end - one.start;
        ++totals[one.name].count;
    }
    std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
    std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
    for (const auto& [name, total] : sorted) {
        const double share = static_cast<double>(total.nanoseconds) / static_cast<double>(end - start);
        if (share >= 0.002) {
            std::fprintf(stderr, "trace: %6.2f%%  %8.3f ms  %6lld x %8.1f us  %s\n", 100 * share,
                         static_cast<double>(total.nanoseconds) / 1e6, static_cast<long long>(total.count),
                         static_cast<double>(total.nanoseconds) / 1e3 / static_cast<double>(total.count), name.c_str());
        }
    }
}

// Copies behind the last kernel are the program's end.
void print_trace() {
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard lock(trace().mutex);
    std::vector<Work>& work = trace().work;
    std::ranges::sort(work, {}, &Work::start);
    while (!work.empty() && work.back().is_copy) {
        work.pop_back();
    }
    if (work.empty()) {
        std::fprintf(stderr, "trace: nothing ran on the GPU\n");
        return;
    }
    const char* const asked = std::getenv("ACCRUE_TRACE_MS");
    const uint64_t nanoseconds = 1'000'000ULL * std::strtoull(asked == nullptr ? "300" : asked, nullptr, 10);
    const uint64_t end = work.back().end;
    std::erase_if(work, [&](const Work& one) { return one.start + nanoseconds < end; });
    print_idle(work, work.front().start, end);
    print_names(work, work.front().start, end);
}

}  // namespace

// The driver calls it before the program's first call to CUDA.
extern "C" int InitializeInjection() {
    const char* const asked = std::getenv("ACCRUE_TRACE");
    const bool by_graphs = asked != nullptr && std::string_view(asked) == "graphs";
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) {
        std::fprintf(stderr, "trace: CUPTI takes no callbacks\n");
        return 1;
    }
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    if (by_graphs) {
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    }
    std::atexit(print_trace);
    return 1;
}
