#include "accrue/data/mapped_file.h"

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/data/token_cache_test_support.h"

namespace accrue {
namespace {

class MappedFileTest : public CacheFolderTest {};

TEST_F(MappedFileTest, ShowsWhatIsInTheFile) {
    const MappedFile mapped(file("a", "0123456789"));
    EXPECT_EQ(mapped.bytes().size(), 10U);
    EXPECT_THAT(mapped.values<char>(4, 3), testing::ElementsAre('4', '5', '6'));
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
