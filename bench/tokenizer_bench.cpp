// How fast tokenizers are, on one thread and on all processors, with vocabularies learned from the same kind of text.
//   accrue_bench_tokenizer [--text FILE] [--vocabulary 50000] [--output RESULT.json]
// Each tokenizer must write the text back, and our own SentencePiece pairs must give the library's ids, before anything
// is timed. Rates are medians over rounds, by the clock and by processor time: on a machine that others use too, the
// clock counts their work and processor time does not.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "bench/tokenizer_bench_text.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>
#include <sys/resource.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizers/bpe_trainer.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;
using Encode = std::function<std::vector<int32_t>(std::string_view)>;

struct Options {
    std::string text;
    int64_t vocabulary = 50'000;
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    int rounds = 7;
    size_t megabytes = 8;
    std::string output;
    std::string commit;
};

double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Times {
    double clock = 0;
    double processor = 0;
};

Times times_of(const std::function<void()>& work) {
    const double processor = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    work();
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
            processor_seconds() - processor};
}

double median_of(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

// Parts of about 64 KiB that end behind a line, so that threads finish at about the same time.
Texts parts_of(const std::string& text) {
    constexpr size_t kPartBytes = size_t{1} << 16;
    Texts parts;
    for (size_t begin = 0; begin < text.size();) {
        const size_t line_end = text.find('\n', std::min(begin + kPartBytes, text.size() - 1));
        const size_t end = line_end == std::string::npos ? text.size() : line_end + 1;
        parts.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return parts;
}

void encode_all(const Encode& encode, const Texts& parts, int threads) {
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t i = next++; i < parts.size(); i = next++) {
            (void)encode(parts[i]);
        }
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) {
        others.emplace_back(work);
    }
    work();
}

// One thread and all threads take turns, so that other work on the machine meets both alike.
Json measure(const Encode& encode, const Texts& parts, const Options& options) {
    double megabytes = 0;
    for (const std::string& part : parts) {
        megabytes += static_cast<double>(part.size()) / 1e6;
    }
    std::array<std::vector<double>, 2> clock;
    std::array<std::vector<double>, 2> processor;
    for (int round = 0; round < options.rounds; ++round) {
        for (const size_t many : {0, 1}) {
            const Times times = times_of([&] { encode_all(encode, parts, many == 0 ? 1 : options.threads); });
            clock[many].push_back(megabytes / times.clock);
            processor[many].push_back(megabytes / times.processor);
        }
    }
    const double one = median_of(clock[0]);
    const double all = median_of(clock[1]);
    return {{"one_thread_mb_per_second", one},
            {"one_thread_mb_per_processor_second", median_of(processor[0])},
            {"threads", options.threads},
            {"all_threads_mb_per_second", all},
            {"all_threads_mb_per_processor_second", median_of(processor[1])},
            {"speedup", all / one}};
}

std::string line_of(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::array<char, 256> buffer{};
    std::string line = pipe && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr ? buffer.data() : "";
    return line.substr(0, line.find('\n'));
}

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) {
            return line.substr(line.find(':') + 2);
        }
    }
    return "unknown";
}

class Bench {
public:
    explicit Bench(Options options) : options_(std::move(options)) {
        const size_t bytes = options_.megabytes * 1'000'000;
        const bool given = !options_.text.empty();
        text_ = given ? read_text(options_.text) : english_like_text(1, bytes);
        parts_ = parts_of(text_);
        const Texts training = {given ? text_ : english_like_text(2, 2 * bytes)};
        byte_level_ = train_byte_level_bpe(training, options_.vocabulary);
        model_ = sentencepiece_model_of(byte_level_);
    }

    Json run() {
        add("byte-level tokenizer.json", tokenizer_of_json(byte_level_, "the byte-level tokenizer"));
        add("SentencePiece-style tokenizer.json",
            tokenizer_of_json(sentencepiece_json_of(byte_level_), "the SentencePiece-style tokenizer"));
        std::unique_ptr<Tokenizer> model = tokenizer_of_sentencepiece(model_, "the SentencePiece model");
        compare_with_library(*model);
        add("tokenizer.model", std::move(model));
        return results_;
    }

private:
    void add(const std::string& name, std::unique_ptr<Tokenizer> tokenizer) {
        for (const std::string& part : parts_) {
            const std::string back = tokenizer->decode(tokenizer->encode(part, Special::without), Special::without);
            if (back != part) {
                const auto place =
                    std::mismatch(part.begin(), part.end(), back.begin(), back.end()).first - part.begin();
                throw Error(cat("the ", name, " does not write the text back: \"", part.substr(place, 20),
                                "\" becomes \"", back.substr(place, 20), "\""));
            }
        }
        Json result = {{"tokenizer", name}, {"vocabulary", tokenizer->vocabulary()}};
        result.update(measure([&](std::string_view text) { return tokenizer->encode(text, Special::without); }, parts_,
                              options_));
        std::printf("%s\n", result.dump(1).c_str());
        results_.push_back(std::move(result));
    }

    // The library is slow, so only a part of the text.
    void compare_with_library(const Tokenizer& tokenizer) {
        sentencepiece::SentencePieceProcessor library;
        const auto status = library.LoadFromSerializedProto(model_);
        if (!status.ok()) {
            throw Error(cat("the SentencePiece library refuses the model: ", status.ToString()));
        }
        const Texts some(parts_.begin(),
                         parts_.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(2, parts_.size())));
        const Encode encode = [&](std::string_view text) {
            std::vector<int> ids;
            (void)library.Encode(text, &ids);
            return std::vector<int32_t>(ids.begin(), ids.end());
        };
        for (const std::string& part : some) {
            if (encode(part) != tokenizer.encode(part, Special::without)) {
                throw Error("our own pairs give other ids than the SentencePiece library");
            }
        }
        Json result = {{"tokenizer", "tokenizer.model by the SentencePiece library, for comparison"},
                       {"vocabulary", tokenizer.vocabulary()}};
        result.update(measure(encode, some, options_));
        results_.push_back(std::move(result));
    }

    Options options_;
    std::string text_;
    Texts parts_;
    std::string byte_level_;
    std::string model_;
    Json results_ = Json::array();
};

Json result_of(const Options& options, const std::string& command) {
    Json results = Bench(options).run();
    const std::string root = ACCRUE_SOURCE_DIR;
    return {{"benchmark", "tokenizer"},
            {"command", command},
            {"commit", options.commit.empty() ? line_of("git -C '" + root + "' describe --always --dirty 2>/dev/null")
                                              : options.commit},
            {"date", line_of("date -u +%Y-%m-%d")},
            {"machine",
             {{"processor", processor_name()},
              {"processors", std::thread::hardware_concurrency()},
              {"load_average", line_of("cut -d' ' -f1-3 /proc/loadavg")}}},
            {"text", options.text.empty() ? cat(options.megabytes, " MB, made by english_like_text()") : options.text},
            {"rounds", options.rounds},
            {"results", std::move(results)}};
}

}  // namespace
}  // namespace accrue

int main(int count, char** values) {
    accrue::Options options;
    CLI::App app("How fast tokenizers are");
    app.add_option("--text", options.text, "a file to learn from and to encode; without it, text is made up");
    app.add_option("--vocabulary", options.vocabulary, "tokens to learn");
    app.add_option("--threads", options.threads, "how many \"all threads\" are");
    app.add_option("--rounds", options.rounds, "how often each rate is measured");
    app.add_option("--megabytes", options.megabytes, "of text that is made up");
    app.add_option("--commit", options.commit, "what was built, where the program cannot ask git");
    app.add_option("--output", options.output, "where the result is written as JSON");
    CLI11_PARSE(app, count, values);
    std::string command = "accrue_bench_tokenizer";
    for (int i = 1; i < count; ++i) {
        command += std::string(" ") + values[i];
    }
    try {
        const std::string result = accrue::result_of(options, command).dump(1) + "\n";
        if (options.output.empty()) {
            std::printf("%s", result.c_str());
        } else {
            accrue::write_text(options.output, result);
        }
    } catch (const accrue::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
