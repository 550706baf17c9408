#include "accrue/data/cache/mapped_file.h"

#include "tests/sanitized.h"
#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/memory.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

class MappedFileTest : public CacheFolderTest {};

TEST_F(MappedFileTest, ShowsWhatIsInTheFile) {
    const MappedFile mapped(file("a", "0123456789"));
    EXPECT_EQ(mapped.bytes().size(), 10U);
    EXPECT_THAT(mapped.values<char>(4, 3), testing::ElementsAre('4', '5', '6'));
}

// A run reads samples here and there in a file that may be larger than all of its memory.
TEST_F(MappedFileTest, ReadingMuchOfALargeFileKeepsLittleOfIt) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    constexpr size_t kBytes = size_t{32} << 20;
    const MappedFile mapped(file("large", std::string(kBytes, 'x')));
    const int64_t before = process_memory().resident_bytes;
    int64_t sum = 0;
    int64_t most = 0;
    for (size_t place = 0; place < kBytes; place += 4096) {
        sum += mapped.values<char>(place, 1)[0];
        most = std::max(most, process_memory().resident_bytes - before);
    }
    EXPECT_EQ(sum, 'x' * static_cast<int64_t>(kBytes / 4096));
    EXPECT_LT(most, int64_t{8} << 20) << "a file system with large pages maps 2 MiB for one byte";
}

TEST_F(MappedFileTest, AnEmptyFileIsAllRight) {
    EXPECT_TRUE(MappedFile(file("empty", "")).bytes().empty());
}

TEST_F(MappedFileTest, AMissingFileIsNamed) {
    try {
        const MappedFile mapped(folder_ / "missing");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("cannot map " + (folder_ / "missing").string()));
    }
}

}  // namespace
}  // namespace accrue
