#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/base/test_places.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenizerThreadsTest, ThreadsMayShareATokenizer) {
    const std::filesystem::path golden = source_folder() / "tests/golden";
    for (const char* name :
         {"tokenizer-gpt2", "tokenizer-qwen2", "tokenizer-llama2", "tokenizer-sentencepiece/tokenizer.model"}) {
        const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(golden / name);
        const std::string text = stories(0, 20'000) + "e\u0301 東京";
        const Ids alone = tokenizer->encode(text, Special::with);
        std::vector<Ids> results(4);
        {
            std::vector<std::jthread> threads;
            for (Ids& result : results) {
                threads.emplace_back([&] { result = tokenizer->encode(text, Special::with); });
            }
        }
        for (const Ids& result : results) {
            EXPECT_EQ(result, alone) << name;
        }
    }
}

}  // namespace
}  // namespace accrue
