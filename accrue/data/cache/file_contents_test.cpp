#include "accrue/data/cache/file_contents.h"

#include <chrono>

#include <gmock/gmock.h>

#include "accrue/base/hash.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class FileContentsTest : public CacheFolderTest {
protected:
    [[nodiscard]] std::vector<std::string> hashes(const std::vector<fs::path>& files) {
        return FileContents(folder_.path()).hashes(files, pool_);
    }

    // A file that nobody has written to for an hour.
    [[nodiscard]] fs::path old_file(const std::string& name, const std::string& text) const {
        const fs::path path = file(name, text);
        fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
        return path;
    }

    static std::string hash_of_text(const std::string& text) { return hash_of(std::as_bytes(std::span(text))); }

    Pool pool_{2};
};

TEST_F(FileContentsTest, AreHashesOfTheBytes) {
    const std::string large(3'000'000, 'x');
    EXPECT_THAT(hashes({file("a", "text"), file("b", ""), file("c", large)}),
                ElementsAre(hash_of_text("text"), hash_of_text(""), hash_of_text(large)));
}

// The list is changed by hand, which shows that it was asked and not the file.
TEST_F(FileContentsTest, AnUnchangedFileIsNotReadAgain) {
    const fs::path path = old_file("a", "text");
    const std::string hash = hashes({path}).front();
    std::string list = read_text(folder_ / "contents");
    ASSERT_EQ(list.find(hash), 0U);
    list[0] = '!';
    write_text(folder_ / "contents", list);
    EXPECT_EQ(hashes({path}).front(), list.substr(0, hash.size()));
}

TEST_F(FileContentsTest, AChangedFileIsReadAgainEvenWithTheOldTimeAndSize) {
    (void)hashes({old_file("a", "text")});
    EXPECT_EQ(hashes({old_file("a", "next")}).front(), hash_of_text("next"));
}

TEST_F(FileContentsTest, AFileWrittenJustNowIsNotTrusted) {
    (void)hashes({file("a", "text")});
    EXPECT_EQ(read_text(folder_ / "contents"), "");
}

TEST_F(FileContentsTest, ADamagedListCountsAsEmpty) {
    write_text(folder_ / "contents", "no list\n\n1 2\n");
    EXPECT_EQ(hashes({old_file("a", "text")}).front(), hash_of_text("text"));
}

}  // namespace
}  // namespace accrue
