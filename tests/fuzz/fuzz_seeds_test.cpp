// The fuzzer's functions in an ordinary test: every seed, and a few hundred small damages of it.

#include <filesystem>

#include "tests/fuzz/parsers.h"
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/base/test_places.h"

namespace accrue::fuzz {
namespace {

namespace fs = std::filesystem;

// Changes a byte, cuts the end off, takes a stretch out, or doubles one; a pure function of the number.
std::string damaged(const std::string& seed, uint64_t number) {
    std::string bytes = seed;
    const auto draw = [&](uint64_t what, size_t below) { return static_cast<size_t>(mix(number, what, 0) % below); };
    for (uint64_t change = 0; change < 1 + number % 3 && !bytes.empty(); ++change) {
        const size_t place = draw(10 * change, bytes.size());
        const size_t length = 1 + draw(10 * change + 1, 16);
        switch (draw(10 * change + 2, 5)) {
            case 0:
                bytes.resize(place);
                break;
            case 1:
                bytes.erase(place, length);
                break;
            case 2:
                bytes.insert(place, bytes.substr(place, length));
                break;
            case 3:
                bytes[place] = static_cast<char>(bytes[place] ^ (1U << draw(10 * change + 3, 8)));
                break;
            default:
                bytes[place] = static_cast<char>(draw(10 * change + 3, 256));
                break;
        }
    }
    return bytes;
}

class FuzzSeedsTest : public ::testing::TestWithParam<Parser> {
protected:
    [[nodiscard]] static std::vector<std::string> seeds() {
        std::vector<std::string> result;
        for (const auto& entry : fs::directory_iterator(source_folder() / "tests/fuzz/seeds" / GetParam().name)) {
            result.push_back(read_text(entry.path()));
        }
        return result;
    }
};

TEST_P(FuzzSeedsTest, SeedsAndTheirDamagesEndInAResultOrAnError) {
    ASSERT_FALSE(seeds().empty());
    for (const std::string& seed : seeds()) {
        GetParam().run(seed);
        for (uint64_t number = 0; number < 300; ++number) {
            GetParam().run(damaged(seed, number));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Parsers, FuzzSeedsTest, ::testing::ValuesIn(parsers().begin(), parsers().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace accrue::fuzz
