// How fast tokenizers are, on one core.
//   tokenizer_bench train VOCABULARY TOKENIZER_JSON TEXT...   learns a byte-level tokenizer and writes it
//   tokenizer_bench TOKENIZER TEXT...                         encodes and decodes the texts
// The texts must come back as they were before they are timed; a time is the best of several rounds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/bpe_trainer.h"
#include "accrue/data/tokenizer.h"

namespace accrue {
namespace {

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_seconds_of(const std::function<void()>& work) {
    double best = seconds_of(work);
    for (int round = 0; round < 4; ++round) {
        best = std::min(best, seconds_of(work));
    }
    return best;
}

std::vector<std::string> read_all(int count, char** paths) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) {
        texts.push_back(read_text(paths[i]));
    }
    return texts;
}

double megabytes_of(const std::vector<std::string>& texts) {
    double bytes = 0;
    for (const std::string& text : texts) {
        bytes += static_cast<double>(text.size());
    }
    return bytes / 1e6;
}

void train(int64_t vocabulary, const char* file, const std::vector<std::string>& texts) {
    std::string json;
    const double seconds = seconds_of([&] { json = train_byte_level_bpe(texts, vocabulary); });
    write_text(file, json);
    std::printf("training: %.1f MB in %.2f s, %lld tokens\n", megabytes_of(texts), seconds,
                static_cast<long long>(open_tokenizer(file)->vocabulary()));
}

void measure(const char* path, const std::vector<std::string>& texts) {
    std::unique_ptr<Tokenizer> tokenizer;
    const double opening = seconds_of([&] { tokenizer = open_tokenizer(path); });
    size_t tokens = 0;
    std::vector<std::vector<int32_t>> all;
    for (const std::string& text : texts) {
        all.push_back(tokenizer->encode(text, Special::without));
        tokens += all.back().size();
        if (tokenizer->decode(all.back(), Special::with) != text) {
            std::printf("a text does not come back as it was\n");
        }
    }
    const double encoding = best_seconds_of([&] {
        for (const std::string& text : texts) {
            (void)tokenizer->encode(text, Special::without);
        }
    });
    const double decoding = best_seconds_of([&] {
        for (const std::vector<int32_t>& ids : all) {
            (void)tokenizer->decode(ids, Special::without);
        }
    });
    const double size = megabytes_of(texts);
    std::printf("%s: %lld tokens, opened in %.2f s; %.2f MB = %zu tokens; encode %.1f MB/s, decode %.1f MB/s\n", path,
                static_cast<long long>(tokenizer->vocabulary()), opening, size, tokens, size / encoding,
                size / decoding);
}

}  // namespace
}  // namespace accrue

int main(int count, char** values) {
    const std::string first = count > 1 ? values[1] : "";
    if ((first == "train" && count < 5) || count < 3) {
        std::fprintf(stderr, "usage: tokenizer_bench [train VOCABULARY] TOKENIZER TEXT...\n");
        return 2;
    }
    try {
        if (first == "train") {
            accrue::train(std::atoll(values[2]), values[3], accrue::read_all(count - 4, values + 4));
        } else {
            accrue::measure(values[1], accrue::read_all(count - 2, values + 2));
        }
    } catch (const accrue::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
