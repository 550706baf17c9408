#include <array>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kPieceIds = size_t{1} << 20;

class BinReaderTest : public ReaderTest {
protected:
    template <class Id>
    [[nodiscard]] static std::string bytes_of(const std::vector<Id>& ids) {
        return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
    }

    [[nodiscard]] static std::string header(int32_t magic, int32_t version, int32_t count) {
        std::vector<int32_t> numbers(256);
        numbers[0] = magic;
        numbers[1] = version;
        numbers[2] = count;
        return bytes_of(numbers);
    }

    [[nodiscard]] static std::vector<int32_t> ids_of(const std::filesystem::path& file) {
        const auto pieces = read_all(file);
        std::vector<int32_t> ids;
        for (size_t index = 0; index < pieces.size(); ++index) {
            EXPECT_EQ(pieces[index].unfinished, index + 1 < pieces.size());
            EXPECT_EQ(pieces[index].parts.size(), 1U);
            const DocumentPart& part = pieces[index].parts.at(0);
            EXPECT_TRUE(part.counted && part.text.empty() && part.ids.size() <= kPieceIds);
            ids.insert(ids.end(), part.ids.begin(), part.ids.end());
        }
        return ids;
    }
};

TEST_F(BinReaderTest, WithoutAHeaderIdsHave16Bits) {
    EXPECT_THAT(ids_of(write("a.bin", bytes_of<uint16_t>({1, 65535, 0}))), ElementsAre(1, 65535, 0));
    EXPECT_THAT(ids_of(write("a.bin", bytes_of<uint16_t>({5}))), ElementsAre(5));
}

TEST_F(BinReaderTest, AnEndingTellsOf32BitsWithoutAHeader) {
    const std::string bytes = bytes_of<uint32_t>({1, 128000, 2147483647});
    EXPECT_THAT(ids_of(write("a.u32.bin", bytes)), ElementsAre(1, 128000, 2147483647));
    EXPECT_THAT(ids_of(write("a.u32.bin.gz", gzipped(bytes))), ElementsAre(1, 128000, 2147483647));
    EXPECT_THAT(ids_of(write("a.u32.bin.zst", zstandard(bytes))), ElementsAre(1, 128000, 2147483647));
}

TEST_F(BinReaderTest, HeadersOfLlmCAreRecognised) {
    const std::string narrow = header(20240520, 1, 2) + bytes_of<uint16_t>({50256, 7});
    const std::string wide = header(20240801, 7, 2) + bytes_of<uint32_t>({128000, 7});
    EXPECT_THAT(ids_of(write("a.bin", narrow)), ElementsAre(50256, 7));
    EXPECT_THAT(ids_of(write("b.bin", wide)), ElementsAre(128000, 7));
    EXPECT_THAT(ids_of(write("a.u32.bin", narrow)), ElementsAre(50256, 7));
    EXPECT_THAT(ids_of(write("b.bin.gz", gzipped(wide))), ElementsAre(128000, 7));
}

TEST_F(BinReaderTest, ALargeFileComesInPieces) {
    for (const size_t count : {kPieceIds - 1, kPieceIds, kPieceIds + 1, 2 * kPieceIds + 5}) {
        std::vector<uint16_t> ids(count);
        std::iota(ids.begin(), ids.end(), uint16_t{1});
        const std::vector<int32_t> expected(ids.begin(), ids.end());
        EXPECT_TRUE(ids_of(write("a.bin", bytes_of(ids))) == expected) << count;
        const std::string with_header = header(20240520, 1, static_cast<int32_t>(count)) + bytes_of(ids);
        EXPECT_TRUE(ids_of(write("a.bin", with_header)) == expected) << count;
        EXPECT_EQ(read_all(folder_ / "a.bin").size(), (count + kPieceIds - 1) / kPieceIds);
    }
}

TEST_F(BinReaderTest, AWrongCountIsAnErrorAtOnceOrAtTheEndOfACompressedFile) {
    const std::string few = header(20240520, 1, 5) + bytes_of<uint16_t>({1, 2, 3});
    const std::string many = header(20240520, 1, 2) + bytes_of<uint16_t>({1, 2, 3});
    EXPECT_THAT(error_of([&] { (void)open_documents(write("a.bin", few), {}); }),
                AllOf(HasSubstr("a.bin has 5 tokens by its header, but 3 follow it"), HasSubstr("cut short")));
    EXPECT_THAT(error_of(write("a.bin", many)), HasSubstr("has 2 tokens by its header, but 3 follow it"));
    EXPECT_THAT(error_of(write("a.bin.gz", gzipped(few))),
                HasSubstr("a.bin.gz has 5 tokens by its header, but 3 follow it"));
    EXPECT_THAT(error_of(write("a.bin.zst", zstandard(many))),
                HasSubstr("has 2 tokens by its header, but 3 follow it"));
    EXPECT_THAT(error_of(write("b.bin", header(20240520, 1, -1))), HasSubstr("has -1 tokens by its header"));
}

TEST_F(BinReaderTest, ADamagedHeaderIsAnError) {
    EXPECT_THAT(error_of(write("a.bin", header(20240520, 2, 0))),
                AllOf(HasSubstr("a.bin has the version 2"), HasSubstr("20240520"), HasSubstr("only version 1")));
    EXPECT_THAT(error_of(write("a.bin", header(20240801, 1, 0))), HasSubstr("only version 7"));
    EXPECT_THAT(error_of(write("a.bin", header(20240520, 1, 0).substr(0, 100))),
                AllOf(HasSubstr("a.bin has 100 bytes"), HasSubstr("1024"), HasSubstr("cut short")));
}

TEST_F(BinReaderTest, BytesLeftOverAreAnError) {
    EXPECT_THAT(error_of(write("a.bin", "abc")),
                AllOf(HasSubstr("a.bin does not hold whole uint16 ids"), HasSubstr("1 bytes are left over")));
    EXPECT_THAT(error_of(write("a.u32.bin", "abcdef")), AllOf(HasSubstr("whole uint32 ids"), HasSubstr("2 bytes")));
    EXPECT_THAT(error_of(write("b.bin", header(20240520, 1, 1) + "abc")), HasSubstr("1 bytes are left over"));
}

TEST_F(BinReaderTest, NoTokensAreAnError) {
    EXPECT_THAT(error_of(write("a.bin", "")), HasSubstr("a.bin is empty: it holds no token"));
    EXPECT_THAT(error_of(write("a.bin", header(20240520, 1, 0))), HasSubstr("is empty"));
}

TEST_F(BinReaderTest, IdsOf32BitsUnderANameFor16AreAnError) {
    std::vector<uint32_t> ids(200);
    std::iota(ids.begin(), ids.end(), 1U);
    EXPECT_THAT(error_of(write("a.bin", bytes_of(ids))),
                AllOf(HasSubstr("a.bin has no header"), HasSubstr("every second one is 0"), HasSubstr(".u32.bin")));
    ids[100] = 65536;
    EXPECT_EQ(ids_of(write("b.bin", bytes_of(ids))).size(), 400U);
}

TEST_F(BinReaderTest, AnIdThatDoesNotFitIsNamed) {
    EXPECT_THAT(error_of(write("a.u32.bin", bytes_of<uint32_t>({1, 2147483648U}))),
                AllOf(HasSubstr("a.u32.bin: token 1 is 2147483648"), HasSubstr("0 to 2^31-1")));
}

}  // namespace
}  // namespace accrue
