#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/data/cache/token_cache.h"

namespace accrue {

// Each line is a document of bytes; "prompt|answer" counts only the answer, and a line that ends in \ goes on in the
// next one.
class LineReader final : public DocumentReader {
public:
    explicit LineReader(const std::filesystem::path& file) : lines_(read_text(file)) {}

    bool next(Document& document) override {
        std::string line;
        if (!std::getline(lines_, line)) {
            return false;
        }
        document.unfinished = !line.empty() && line.back() == '\\';
        if (document.unfinished) {
            line.pop_back();
        }
        const size_t bar = line.find('|');
        if (bar != std::string::npos) {
            document.parts.push_back({.text = line.substr(0, bar), .ids = {}, .counted = false});
        }
        document.parts.push_back({.text = line.substr(bar == std::string::npos ? 0 : bar + 1), .ids = {}});
        return true;
    }

private:
    std::istringstream lines_;
};

// A folder with files and caches of them, removed at the end.
class CacheFolderTest : public testing::Test {
protected:
    std::filesystem::path file(const std::string& name, const std::string& text) const {
        write_text(folder_ / name, text);
        return folder_ / name;
    }

    // A token per byte. Counts the documents that go through.
    [[nodiscard]] TokenSource source(std::vector<std::filesystem::path> files) {
        return {.files = std::move(files),
                .open = [](const std::filesystem::path& path) { return std::make_unique<LineReader>(path); },
                .tokenize =
                    [this](const Document& document, PiecePlace, TokenizedDocument& tokenized) {
                        ++tokenized_;
                        tokenized = {};
                        for (const DocumentPart& part : document.parts) {
                            for (const char byte : part.text) {
                                tokenized.ids.push_back(static_cast<unsigned char>(byte));
                            }
                            tokenized.counted.resize(tokenized.ids.size(), part.counted ? 1 : 0);
                        }
                    },
                .settings = "bytes",
                .vocabulary = 256};
    }

    [[nodiscard]] TokenCacheOptions options(int threads = 1) const {
        return {.folder = folder_ / "cache", .threads = threads};
    }

    // Many lines of different lengths, some with a prompt, some empty.
    static std::string many_lines(int count) {
        std::string text;
        for (int i = 0; i < count; ++i) {
            text += std::string(static_cast<size_t>(i * 37 % 101), static_cast<char>('a' + i % 26));
            text += i % 3 == 0 ? "|answer " + std::to_string(i) : "";
            text += i % 7 == 0 && i + 1 < count ? "\\\n" : "\n";
        }
        return text;
    }

    std::atomic<int> tokenized_ = 0;
    TemporaryFolder folder_;
};

// The tokens of a document of a cache, as text.
inline std::string text_of(const TokenCache& cache, int64_t document) {
    const TokenRange tokens = cache.document(document);
    std::vector<int32_t> ids(static_cast<size_t>(tokens.size()));
    cache.copy_ids(tokens, ids);
    return {ids.begin(), ids.end()};
}

}  // namespace accrue
