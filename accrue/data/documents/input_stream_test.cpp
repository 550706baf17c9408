#include "accrue/data/documents/input_stream.h"

#include <gmock/gmock.h>

#include "accrue/base/random.h"
#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InputStreamTest : public ReaderTest {
protected:
    // All bytes of a file, asked for so many at a time.
    [[nodiscard]] static std::string unpacked(const std::filesystem::path& file, size_t at_a_time = 1000) {
        const auto stream = open_stream(file);
        std::string all;
        std::vector<char> piece(at_a_time);
        for (size_t count = at_a_time; count == at_a_time;) {
            count = stream->read(piece);
            all.append(piece.data(), count);
        }
        return all;
    }

    [[nodiscard]] static std::string error_of_unpacking(const std::filesystem::path& file) {
        return error_of([&] { (void)unpacked(file); });
    }

    // Text that repeats itself, so that little input gives much output, between bytes that cannot be packed, so that the
    // packed form is longer than a buffer.
    [[nodiscard]] static std::string mixed_bytes() {
        std::string bytes;
        for (uint64_t i = 0; bytes.size() < 1'500'000; ++i) {
            bytes += i % 4096 < 2048 ? static_cast<char>(mix(i)) : 'x';
        }
        return bytes;
    }
};

TEST_F(InputStreamTest, APlainFileIsHandedOutAsItIs) {
    const std::string bytes = mixed_bytes();
    const auto file = write("a.bin", bytes);
    EXPECT_TRUE(unpacked(file) == bytes);
    EXPECT_EQ(open_stream(file)->size(), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(unpacked(write("empty.bin", "")), "");
}

TEST_F(InputStreamTest, CompressedFilesAreUnpackedWhateverIsAskedForAtATime) {
    const std::string bytes = mixed_bytes();
    const auto gzip = write("a.gz", gzipped(bytes));
    const auto zstd = write("a.zst", zstandard(bytes));
    ASSERT_GT(std::filesystem::file_size(gzip), 600'000U);
    ASSERT_GT(std::filesystem::file_size(zstd), 600'000U);
    for (const size_t at_a_time : {size_t{7}, size_t{1000}, bytes.size(), bytes.size() + 1}) {
        EXPECT_TRUE(unpacked(gzip, at_a_time) == bytes) << at_a_time;
        EXPECT_TRUE(unpacked(zstd, at_a_time) == bytes) << at_a_time;
    }
    EXPECT_EQ(open_stream(gzip)->size(), std::nullopt);
}

TEST_F(InputStreamTest, FilesPackedOneBehindTheOtherAreReadAsOne) {
    EXPECT_EQ(unpacked(write("a.gz", gzipped("one ") + gzipped("") + gzipped("two"))), "one two");
    EXPECT_EQ(unpacked(write("a.zst", zstandard("one ") + zstandard("") + zstandard("two"))), "one two");
}

TEST_F(InputStreamTest, NothingPackedIsNothing) {
    EXPECT_EQ(unpacked(write("a.gz", gzipped(""))), "");
    EXPECT_EQ(unpacked(write("a.zst", zstandard(""))), "");
}

TEST_F(InputStreamTest, CompressedDataThatIsCutShortIsAnErrorWhereverTheCut) {
    const std::string text = "some words that are packed, some words that are packed";
    const std::string gzip = gzipped(text);
    const std::string zstd = zstandard(text);
    for (size_t size = 0; size < gzip.size(); ++size) {
        EXPECT_THAT(error_of_unpacking(write("a.gz", gzip.substr(0, size))),
                    AllOf(HasSubstr("a.gz is cut short"), HasSubstr("ends in the middle")))
            << size;
    }
    for (size_t size = 0; size < zstd.size(); ++size) {
        EXPECT_THAT(error_of_unpacking(write("a.zst", zstd.substr(0, size))),
                    AllOf(HasSubstr("a.zst is cut short"), HasSubstr("ends in the middle")))
            << size;
    }
}

TEST_F(InputStreamTest, ALongFileThatIsCutShortIsAnError) {
    const std::string bytes = mixed_bytes();
    std::string gzip = gzipped(bytes);
    std::string zstd = zstandard(bytes);
    gzip.resize(gzip.size() - 1000);
    zstd.resize(zstd.size() - 1000);
    EXPECT_THAT(error_of_unpacking(write("a.gz", gzip)), HasSubstr("cut short"));
    EXPECT_THAT(error_of_unpacking(write("a.zst", zstd)), HasSubstr("cut short"));
}

TEST_F(InputStreamTest, AChangedByteIsAnError) {
    const std::string bytes = mixed_bytes();
    std::string gzip = gzipped(bytes);
    std::string zstd = zstandard(bytes);
    gzip[gzip.size() / 2] ^= 1;
    zstd[zstd.size() / 2] ^= 1;
    EXPECT_THAT(error_of_unpacking(write("a.gz", gzip)),
                AllOf(HasSubstr("a.gz is damaged"), HasSubstr("cannot be unpacked")));
    EXPECT_THAT(error_of_unpacking(write("a.zst", zstd)),
                AllOf(HasSubstr("a.zst is damaged"), HasSubstr("cannot be unpacked")));
}

TEST_F(InputStreamTest, WhatIsNotCompressedIsAnErrorUnderACompressedName) {
    EXPECT_THAT(error_of_unpacking(write("a.gz", "plain text")),
                AllOf(HasSubstr("a.gz is damaged"), HasSubstr("incorrect header")));
    EXPECT_THAT(error_of_unpacking(write("a.zst", "plain text")),
                AllOf(HasSubstr("a.zst is damaged"), HasSubstr("Unknown frame")));
    EXPECT_THAT(error_of_unpacking(write("b.gz", gzipped("text") + "more")), HasSubstr("b.gz is damaged"));
    EXPECT_THAT(error_of_unpacking(write("b.zst", zstandard("text") + "more")), HasSubstr("b.zst is damaged"));
}

TEST_F(InputStreamTest, AMissingFileIsNamed) {
    for (const char* name : {"a.txt", "a.gz", "a.zst"}) {
        EXPECT_THAT(error_of_unpacking(folder_ / name), AllOf(HasSubstr("cannot open"), HasSubstr(name)));
    }
}

TEST_F(InputStreamTest, TheNameWithoutCompressionKeepsAllElse) {
    EXPECT_EQ(without_compression("x/a.b.txt.gz"), "x/a.b.txt");
    EXPECT_EQ(without_compression("a.u32.bin.zst"), "a.u32.bin");
    EXPECT_EQ(without_compression("a.txt"), "a.txt");
}

}  // namespace
}  // namespace accrue
