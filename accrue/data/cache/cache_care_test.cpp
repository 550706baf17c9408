#include "accrue/data/cache/cache_care.h"

#include <set>

#include <gmock/gmock.h>

#include "accrue/base/file_lock.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

class CacheCareTest : public CacheFolderTest {
protected:
    [[nodiscard]] fs::path open(const fs::path& path, const std::string& settings = "bytes") {
        TokenSource opened = source({path});
        opened.settings = settings;
        return open_token_cache(opened, options())->folder();
    }
    // Whatever lies in the folder of caches that belongs to a cache.
    [[nodiscard]] std::set<fs::path> caches() const {
        std::set<fs::path> found;
        for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "cache")) {
            if (entry.is_directory()) {
                found.insert(entry.path());
            }
        }
        return found;
    }
};

TEST_F(CacheCareTest, ANewTextReplacesTheCacheOfTheOldOne) {
    const fs::path first = open(file("a.txt", "one\n"));
    const fs::path second = open(file("a.txt", "two\n"));
    EXPECT_EQ(caches(), std::set{second});
    EXPECT_FALSE(fs::exists(first.string() + ".lock")) << "its lock goes too";
}

TEST_F(CacheCareTest, AMappedCacheCanBeReadAfterItWasReplaced) {
    const auto old = open_token_cache(source({file("a.txt", "one\ntwo\n")}), options());
    (void)open(file("a.txt", "other\n"));
    EXPECT_FALSE(fs::exists(old->folder()));
    EXPECT_EQ(text_of(*old, 1), "two");
    EXPECT_TRUE(old->counted(5));
}

TEST_F(CacheCareTest, ACacheOfOtherSettingsIsReplacedOnlyWithItsText) {
    const fs::path bytes = open(file("a.txt", "one\n"));
    const fs::path words = open(folder_ / "a.txt", "words");
    EXPECT_EQ(caches(), (std::set{bytes, words}));
    const fs::path next = open(file("a.txt", "two\n"));
    EXPECT_EQ(caches(), std::set{next}) << "both were made of a text that is gone";
}

TEST_F(CacheCareTest, ACacheThatAnotherFileStillNeedsStays) {
    const fs::path shared = open(file("a.txt", "one\n"));
    ASSERT_EQ(open(file("b.txt", "one\n")), shared);
    const fs::path other = open(file("a.txt", "two\n"));
    EXPECT_EQ(caches(), (std::set{shared, other}));
    const fs::path third = open(file("b.txt", "three\n"));
    EXPECT_EQ(caches(), (std::set{other, third}));
}

TEST_F(CacheCareTest, OneChangedFileOutdatesEverySetThatHasIt) {
    const auto both = open_token_cache(source({file("a.txt", "one\n"), file("b.txt", "two\n")}), options());
    const fs::path alone = open(file("b.txt", "changed\n"));
    EXPECT_EQ(caches(), std::set{alone});
}

TEST_F(CacheCareTest, ACacheWhoseFileIsGoneStays) {
    const fs::path first = open(file("a.txt", "one\n"));
    fs::remove(folder_ / "a.txt");
    const fs::path second = open(file("b.txt", "two\n"));
    EXPECT_EQ(caches(), (std::set{first, second}));
}

TEST_F(CacheCareTest, LeftoversOfDeadBuildsGoAndThoseOfLivingOnesStay) {
    (void)open(file("a.txt", "one\n"));
    const fs::path dead = folder_ / "cache" / "0123.partial";
    const fs::path living = folder_ / "cache" / "4567.partial";
    fs::create_directory(dead);
    fs::create_directory(living);
    file("cache/89.lock", "");
    {
        const FileLock lock(folder_ / "cache" / "4567.lock", [] {});
        (void)open(folder_ / "a.txt");
        EXPECT_FALSE(fs::exists(dead));
        EXPECT_TRUE(fs::exists(living));
        EXPECT_FALSE(fs::exists(folder_ / "cache" / "89.lock"));
    }
    (void)open(folder_ / "a.txt");
    EXPECT_FALSE(fs::exists(living));
}

TEST_F(CacheCareTest, ABusyCacheIsRemovedLater) {
    const fs::path first = open(file("a.txt", "one\n"));
    fs::path second;
    {
        const FileLock lock(first.string() + ".lock", [] {});
        second = open(file("a.txt", "two\n"));
        EXPECT_EQ(caches(), (std::set{first, second}));
    }
    (void)open(folder_ / "a.txt");
    EXPECT_EQ(caches(), std::set{second});
}

TEST_F(CacheCareTest, ADamagedListRemovesNothing) {
    const fs::path first = open(file("a.txt", "one\n"));
    file("cache/uses", "no list\n\n1 2\n");
    const fs::path second = open(file("a.txt", "two\n"));
    EXPECT_EQ(caches(), (std::set{first, second}));
}

}  // namespace
}  // namespace accrue
