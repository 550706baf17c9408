#include "accrue/data/cache/token_cache.h"

#include <csignal>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "accrue/base/error.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class TokenCacheTest : public CacheFolderTest {
protected:
    [[nodiscard]] std::string error_of(const TokenSource& source) const {
        try {
            (void)open_token_cache(source, options());
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    // The files of a cache by name.
    static std::map<std::string, std::string> files_of(const fs::path& folder) {
        std::map<std::string, std::string> files;
        for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
            files[entry.path().filename().string()] = read_text(entry.path());
        }
        return files;
    }
};

TEST_F(TokenCacheTest, DocumentsAreKeptInOrderWithWhatCounts) {
    const auto cache = open_token_cache(source({file("a.txt", "one\nask|say\n"), file("b.txt", "four")}), options());
    ASSERT_EQ(cache->document_count(), 3);
    EXPECT_EQ(cache->token_count(), 13);
    EXPECT_EQ(text_of(*cache, 0), "one");
    EXPECT_EQ(text_of(*cache, 1), "asksay");
    EXPECT_EQ(text_of(*cache, 2), "four");
    EXPECT_FALSE(cache->counted(5));
    EXPECT_TRUE(cache->counted(6));
    EXPECT_FALSE(cache->all_counted());
    EXPECT_EQ(cache->facts().counted, 10);
    EXPECT_EQ(cache->facts().longest_document, 6);
    EXPECT_THAT(cache->name_of(1), AllOf(HasSubstr("a.txt"), HasSubstr("document 1")));
    EXPECT_THAT(cache->name_of(2), AllOf(HasSubstr("b.txt"), HasSubstr("document 0")));
    EXPECT_EQ(cache->rebuilt_because(), "");
}

TEST_F(TokenCacheTest, PiecesBecomeOneDocument) {
    const auto cache = open_token_cache(source({file("a.txt", "one\\\ntwo\\\nzoo\nnext\n")}), options());
    ASSERT_EQ(cache->document_count(), 2);
    EXPECT_EQ(text_of(*cache, 0), "onetwozoo");
    EXPECT_EQ(cache->facts().largest_token, 'z');
    EXPECT_EQ(cache->facts().largest_document, 0);
    EXPECT_EQ(cache->facts().largest_place, 6);
}

TEST_F(TokenCacheTest, LaterPiecesAreToldApartFromFirstOnes) {
    TokenSource marked = source({file("a.txt", "one\\\ntwo\nthree\n"), file("b.txt", "four\n")});
    marked.tokenize = [](const Document&, PiecePlace place, TokenizedDocument& tokenized) {
        tokenized = {.ids = {place == PiecePlace::first ? 1 : 2}, .counted = {1}};
    };
    const auto cache = open_token_cache(marked, options());
    ASSERT_EQ(cache->document_count(), 3);
    EXPECT_EQ(text_of(*cache, 0), "\1\2");
    EXPECT_EQ(text_of(*cache, 1), "\1");
    EXPECT_EQ(text_of(*cache, 2), "\1");
}

TEST_F(TokenCacheTest, CountingARangeOfBitsEqualsCountingOneByOne) {
    const auto cache = open_token_cache(source({file("a.txt", many_lines(40))}), options());
    for (int64_t begin = 0; begin < 300; begin += 7) {
        int64_t count = 0;
        for (int64_t end = begin; end < std::min(begin + 200, cache->token_count()); ++end) {
            ASSERT_EQ(cache->counted_in({begin, end}), count) << begin << " to " << end;
            count += cache->counted(end) ? 1 : 0;
        }
    }
}

TEST_F(TokenCacheTest, LargeVocabulariesTakeFourBytes) {
    TokenSource wide = source({file("a.txt", "one\n")});
    wide.tokenize = [](const Document&, PiecePlace, TokenizedDocument& tokenized) {
        tokenized = {.ids = {1, 70000, 3}, .counted = {1, 1, 1}};
    };
    EXPECT_THAT(error_of(wide), AllOf(HasSubstr("a.txt, document 0 has the token 70000"), HasSubstr("has only 256")));
    wide.vocabulary = 100000;
    const auto cache = open_token_cache(wide, options());
    std::vector<int32_t> ids(3);
    cache->copy_ids(cache->document(0), ids);
    EXPECT_THAT(ids, testing::ElementsAre(1, 70000, 3));
    EXPECT_EQ(cache->facts().largest_place, 1);
}

// Enough lines for several rounds.
TEST_F(TokenCacheTest, ThreadsDoNotChangeABit) {
    const std::vector<fs::path> files = {file("a.txt", many_lines(20000)), file("b.txt", many_lines(5000))};
    std::map<std::string, std::string> first;
    for (const int threads : {1, 2, 3}) {
        const auto cache = open_token_cache(source(files), options(threads));
        const auto bytes = files_of(cache->folder());
        EXPECT_EQ(bytes.size(), 5U);
        if (threads == 1) {
            first = bytes;
        }
        EXPECT_TRUE(bytes == first) << threads << " threads";
        fs::remove_all(cache->folder());
    }
}

TEST_F(TokenCacheTest, ASecondTimeNothingIsTokenized) {
    const fs::path path = file("a.txt", "one\ntwo\n");
    (void)open_token_cache(source({path}), options());
    EXPECT_EQ(tokenized_, 2);
    const auto again = open_token_cache(source({path}), options());
    EXPECT_EQ(tokenized_, 2);
    EXPECT_EQ(text_of(*again, 1), "two");
    // The contents decide, not the name.
    fs::rename(path, folder_ / "b.txt");
    EXPECT_THAT(open_token_cache(source({folder_ / "b.txt"}), options())->name_of(0), HasSubstr("b.txt"));
    EXPECT_EQ(tokenized_, 2);
}

TEST_F(TokenCacheTest, OtherContentsSettingsOrEndingsAreTokenizedAgain) {
    const fs::path path = file("a.txt", "one\n");
    (void)open_token_cache(source({path}), options());
    file("a.txt", "two\n");
    EXPECT_EQ(text_of(*open_token_cache(source({path}), options()), 0), "two");
    EXPECT_EQ(tokenized_, 2);
    TokenSource other = source({path});
    other.settings = "other bytes";
    (void)open_token_cache(other, options());
    EXPECT_EQ(tokenized_, 3);
    (void)open_token_cache(source({file("a.csv", "two\n")}), options());
    EXPECT_EQ(tokenized_, 4);
}

TEST_F(TokenCacheTest, ADamagedCacheIsBuiltAgainAndSaysWhy) {
    const auto sources = source({file("a.txt", "one\ntwo\n")});
    const fs::path cache = open_token_cache(sources, options())->folder();
    const auto whole = files_of(cache);
    const auto expect_rebuilt = [&](const std::string& reason) {
        const auto again = open_token_cache(sources, options());
        EXPECT_THAT(again->rebuilt_because(), HasSubstr(reason));
        EXPECT_TRUE(files_of(cache) == whole) << reason;
        EXPECT_EQ(open_token_cache(sources, options())->rebuilt_because(), "");
    };
    cut_file(cache / "tokens", 10);
    expect_rebuilt("tokens has 10 bytes instead of 12");
    fs::remove(cache / "documents");
    expect_rebuilt("documents is missing");
    cut_file(cache / "counted", 0);
    expect_rebuilt("counted has 0 bytes instead of 8");
    cut_file(cache / "checksums", 16);
    expect_rebuilt("checksums has 16 bytes instead of 24");
    std::string checksums = whole.at("checksums");
    checksums[8] = static_cast<char>(checksums[8] ^ 1);
    write_text(cache / "checksums", checksums);
    expect_rebuilt("checksums are damaged");
    cut_file(cache / "header", 20);
    expect_rebuilt("header is missing or of another version");
    std::string header = whole.at("header");
    header[60] = static_cast<char>(header[60] ^ 1);
    write_text(cache / "header", header);
    expect_rebuilt("header is damaged");
}

TEST_F(TokenCacheTest, ACacheOfAnotherVersionOrOtherContentsIsBuiltAgain) {
    const auto sources = source({file("a.txt", "one\ntwo\n")});
    const auto first = open_token_cache(sources, options());
    const auto write_header = [&](TokenHeader header) {
        header.checksum = checksum_of(header);
        std::ofstream(first->folder() / "header").write(reinterpret_cast<const char*>(&header), sizeof(header));
    };
    TokenHeader newer = first->header();
    newer.version = 99;
    write_header(newer);
    EXPECT_THAT(open_token_cache(sources, options())->rebuilt_because(), HasSubstr("version 99"));
    TokenHeader other = first->header();
    other.key.front() = 'x';
    write_header(other);
    EXPECT_THAT(open_token_cache(sources, options())->rebuilt_because(), HasSubstr("other contents"));
}

// Opening a cache does not read its records, so the first use of a damaged one must find it.
TEST_F(TokenCacheTest, ADamagedRecordIsAnErrorWhenItIsUsed) {
    const auto cache = open_token_cache(source({file("a.txt", "one\ntwo\n")}), options());
    const fs::path path = cache->folder() / "documents";
    const auto message_of = [](const auto& use) -> std::string {
        try {
            use();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    };
    for (const int64_t end : {int64_t{-1}, int64_t{2}, int64_t{7}, int64_t{1} << 40}) {
        DocumentRecord record = cache->record(1);
        record.token_end = end;
        record.file = 9;
        std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
            .seekp(sizeof record)
            .write(reinterpret_cast<const char*>(&record), sizeof record);
        EXPECT_THAT(message_of([&] { (void)cache->document(1); }),
                    AllOf(HasSubstr(cache->folder().string()), HasSubstr("is damaged: document 1 has the tokens"),
                          HasSubstr("Remove that folder")));
        EXPECT_THAT(message_of([&] { (void)cache->name_of(1); }), HasSubstr("is damaged: document 1 is of file 9"));
    }
}

// The child dies in the middle, with tokens already written.
TEST_F(TokenCacheTest, AfterAnInterruptedBuildTheCacheIsRight) {
    const auto sources = source({file("a.txt", many_lines(20000))});
    const pid_t child = fork();
    if (child == 0) {
        TokenSource deadly = sources;
        deadly.tokenize = [&](const Document& document, PiecePlace place, TokenizedDocument& tokenized) {
            sources.tokenize(document, place, tokenized);
            if (tokenized_ == 15000) {
                (void)kill(getpid(), SIGKILL);
            }
        };
        (void)open_token_cache(deadly, options());
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto has_partial = [&] {
        for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "cache")) {
            if (entry.path().extension() == ".partial") {
                return true;
            }
        }
        return false;
    };
    ASSERT_TRUE(has_partial());
    const auto cache = open_token_cache(sources, options());
    const auto after = files_of(cache->folder());
    EXPECT_FALSE(has_partial());
    fs::remove_all(cache->folder());
    EXPECT_TRUE(after == files_of(open_token_cache(sources, options())->folder()));
}

TEST_F(TokenCacheTest, AnErrorWhileBuildingLeavesNothing) {
    TokenSource failing = source({file("a.txt", "one\n")});
    failing.tokenize = [](const Document&, PiecePlace, TokenizedDocument&) { throw Error("no such character"); };
    EXPECT_EQ(error_of(failing), "no such character");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "cache")) {
        EXPECT_FALSE(entry.is_directory()) << entry.path();
    }
}

TEST_F(TokenCacheTest, ProgressGoesFromSomethingToEverything) {
    const fs::path path = file("a.txt", many_lines(20000));
    std::vector<int64_t> done;
    TokenCacheOptions reporting = options();
    std::vector<CacheProgress::Stage> ends;
    reporting.progress = [&](const CacheProgress& progress) {
        if (progress.cache != nullptr) {
            EXPECT_GT(progress.cache->token_count(), 0);
            ends.push_back(progress.stage);
            return;
        }
        EXPECT_EQ(progress.stage, CacheProgress::Stage::tokenizing);
        EXPECT_EQ(progress.bytes_total, static_cast<int64_t>(fs::file_size(path)));
        done.push_back(progress.bytes_done);
    };
    (void)open_token_cache(source({path}), reporting);
    ASSERT_GT(done.size(), 2U);
    EXPECT_LT(done.front(), done.back());
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(done.back(), static_cast<int64_t>(fs::file_size(path)));
    const size_t calls = done.size();
    (void)open_token_cache(source({path}), reporting);
    EXPECT_EQ(done.size(), calls);
    EXPECT_THAT(ends, testing::ElementsAre(CacheProgress::Stage::built, CacheProgress::Stage::reused));
}

TEST_F(TokenCacheTest, ProgressThatThrowsStopsTheBuild) {
    TokenCacheOptions stopping = options();
    stopping.progress = [](const CacheProgress&) { throw Error("stopped by a signal"); };
    EXPECT_THROW((void)open_token_cache(source({file("a.txt", "one\n")}), stopping), Error);
}

// Two processes at once: the second waits and finds what the first has built.
TEST_F(TokenCacheTest, OneOfTwoProcessesBuilds) {
    const auto sources = source({file("a.txt", "one\ntwo\n")});
    std::array<int, 2> started{};
    std::array<int, 2> go_on{};
    ASSERT_EQ(pipe(started.data()), 0);
    ASSERT_EQ(pipe(go_on.data()), 0);
    const pid_t child = fork();
    char byte = 0;
    if (child == 0) {
        TokenSource slow = sources;
        slow.tokenize = [&](const Document& document, PiecePlace place, TokenizedDocument& tokenized) {
            if (tokenized_ == 0) {
                (void)!write(started[1], "x", 1);
                (void)!read(go_on[0], &byte, 1);
            }
            sources.tokenize(document, place, tokenized);
        };
        (void)open_token_cache(slow, options());
        _exit(0);
    }
    ASSERT_EQ(read(started[0], &byte, 1), 1);
    TokenCacheOptions waiting = options();
    int waited = 0;
    waiting.progress = [&](const CacheProgress& progress) {
        EXPECT_EQ(progress.stage,
                  progress.cache == nullptr ? CacheProgress::Stage::waiting : CacheProgress::Stage::reused);
        if (++waited == 1) {
            EXPECT_EQ(write(go_on[1], "x", 1), 1);
        }
    };
    const auto cache = open_token_cache(sources, waiting);
    EXPECT_GE(waited, 1);
    EXPECT_EQ(tokenized_, 0);
    EXPECT_EQ(text_of(*cache, 1), "two");
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    for (const int descriptor : {started[0], started[1], go_on[0], go_on[1]}) {
        close(descriptor);
    }
}

TEST_F(TokenCacheTest, AFileThatChangesMeanwhileIsAnError) {
    const fs::path path = file("a.txt", "one\n");
    TokenSource changing = source({path});
    changing.open = [](const fs::path& opened) {
        auto reader = std::make_unique<LineReader>(opened);
        write_text(opened, "another text\n");
        return reader;
    };
    EXPECT_THAT(error_of(changing), AllOf(HasSubstr("a.txt"), HasSubstr("changed while it was read")));
}

TEST_F(TokenCacheTest, NothingToReadIsAnError) {
    EXPECT_THAT(error_of(source({})), HasSubstr("at least one file"));
    EXPECT_THAT(error_of(source({folder_ / "missing.txt"})), HasSubstr("missing.txt"));
    EXPECT_THAT(error_of(source({file("a.txt", "\n\n")})), AllOf(HasSubstr("a.txt has"), HasSubstr("no text")));
    TokenCacheOptions nowhere = options();
    nowhere.folder = file("occupied", "a file") / "cache";
    EXPECT_THROW((void)open_token_cache(source({file("a.txt", "one\n")}), nowhere), Error);
}

TEST_F(TokenCacheTest, EmptyDocumentsAreLeftOutAndCounted) {
    const auto cache = open_token_cache(source({file("a.txt", "one\n\n\ntwo\n")}), options());
    EXPECT_EQ(cache->document_count(), 2);
    EXPECT_EQ(cache->skipped(), 2);
}

}  // namespace
}  // namespace accrue
