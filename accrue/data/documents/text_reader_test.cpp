#include <gmock/gmock.h>

#include "accrue/data/documents/reader_test.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class TextReaderTest : public ReaderTest {
protected:
    // The text of a document that is handed out in pieces; fails unless all but the last are unfinished.
    [[nodiscard]] static std::string joined(const std::vector<Document>& pieces) {
        std::string text;
        for (size_t index = 0; index < pieces.size(); ++index) {
            EXPECT_EQ(pieces[index].unfinished, index + 1 < pieces.size());
            EXPECT_EQ(pieces[index].parts.size(), 1U);
            EXPECT_LE(pieces[index].parts.at(0).text.size(), kMiB);
            text += pieces[index].parts.at(0).text;
        }
        return text;
    }

    [[nodiscard]] static std::string repeated(std::string_view text, size_t size) {
        std::string result;
        while (result.size() < size) {
            result += text;
        }
        return result;
    }
};

TEST_F(TextReaderTest, AFileIsOneDocumentThatCountsWhole) {
    const auto documents = read_all(write("a.txt", "Two lines,\r\n<|im_end|> and größer.\n"));
    ASSERT_EQ(documents.size(), 1U);
    EXPECT_EQ(joined(documents), "Two lines,\r\n<|im_end|> and größer.\n");
    EXPECT_TRUE(documents[0].parts[0].counted);
    EXPECT_FALSE(documents[0].parts[0].has_markup);
}

TEST_F(TextReaderTest, CompressedFilesReadTheSame) {
    EXPECT_EQ(joined(read_all(write("a.txt.gz", gzipped("packed text")))), "packed text");
    EXPECT_EQ(joined(read_all(write("a.txt.zst", zstandard("packed text")))), "packed text");
}

TEST_F(TextReaderTest, ALargeFileComesInPiecesThatEndBeforeTheSpaceBehindAWord) {
    const std::string text = repeated("All the words, 1234 of them.\n\n  And \"more\":\r\n", 3 * kMiB + 12345);
    const auto pieces = read_all(write("a.txt", text));
    EXPECT_EQ(pieces.size(), 4U);
    EXPECT_TRUE(joined(pieces) == text);
    for (size_t index = 1; index < pieces.size(); ++index) {
        const std::string& before = pieces[index - 1].parts[0].text;
        EXPECT_GT(before.size(), kMiB - 100);
        EXPECT_EQ(pieces[index].parts[0].text.front(), ' ');
        EXPECT_NE(before.back(), ' ');
        EXPECT_NE(before.back(), '\n');
    }
}

// Newer patterns join punctuation with the line end behind it, so only a letter or digit may stand before the cut.
TEST_F(TextReaderTest, WithoutSpacesPiecesEndBeforeALineEndBehindALetter) {
    const std::string text = repeated("字字字。\n字字字\n字字字!\n", 2 * kMiB + 1);
    const auto pieces = read_all(write("a.txt", text));
    EXPECT_TRUE(joined(pieces) == text);
    ASSERT_EQ(pieces.size(), 3U);
    EXPECT_TRUE(pieces[0].parts[0].text.ends_with("。\n字字字"));
    EXPECT_TRUE(pieces[1].parts[0].text.ends_with("。\n字字字"));
}

TEST_F(TextReaderTest, WithoutWordsPiecesEndBehindALineEnd) {
    const std::string text = repeated("!!!!!!\n", kMiB + 100);
    const auto pieces = read_all(write("a.txt", text));
    EXPECT_TRUE(joined(pieces) == text);
    ASSERT_EQ(pieces.size(), 2U);
    EXPECT_EQ(pieces[0].parts[0].text.back(), '\n');
}

TEST_F(TextReaderTest, WithoutWhiteSpacePiecesEndBetweenCharacters) {
    for (const std::string lead : {"", "a", "aa", "aaa"}) {
        const std::string text = lead + repeated("\U0001F600", 2 * kMiB + 100);
        const auto pieces = read_all(write("a.txt", text));
        EXPECT_TRUE(joined(pieces) == text);
        for (const Document& piece : pieces) {
            EXPECT_TRUE(is_utf8(piece.parts[0].text)) << lead;
        }
    }
}

TEST_F(TextReaderTest, SizesAroundAPieceLoseNothing) {
    for (size_t size = kMiB - 5; size <= kMiB + 6; ++size) {
        const std::string text = repeated("x", size);
        const auto pieces = read_all(write("a.txt", text));
        EXPECT_TRUE(joined(pieces) == text) << size;
        EXPECT_EQ(pieces.size(), size <= kMiB ? 1U : 2U) << size;
    }
}

TEST_F(TextReaderTest, AByteOrderMarkIsDropped) {
    EXPECT_EQ(joined(read_all(write("a.txt", "\xEF\xBB\xBFtext"))), "text");
    const std::string text = repeated("größer ", kMiB + 100);
    EXPECT_TRUE(joined(read_all(write("a.txt", "\xEF\xBB\xBF" + text))) == text);
}

TEST_F(TextReaderTest, AnEmptyFileIsAnError) {
    EXPECT_THAT(error_of(write("a.txt", "")), AllOf(HasSubstr("a.txt is empty"), HasSubstr("at least one byte")));
    EXPECT_THAT(error_of(write("b.txt", "\xEF\xBB\xBF")), HasSubstr("b.txt is empty"));
    EXPECT_THAT(error_of(write("a.txt.gz", gzipped(""))), HasSubstr("a.txt.gz is empty"));
}

TEST_F(TextReaderTest, TheFirstByteThatIsNotUtf8IsNamed) {
    EXPECT_THAT(error_of(write("a.txt", "gr\xF6\xDF")),
                AllOf(HasSubstr("a.txt is not UTF-8 at byte 2 "), HasSubstr("iconv")));
    EXPECT_THAT(error_of(write("a.txt", "\xEF\xBB\xBF\xFF")), HasSubstr("at byte 3 "));
    EXPECT_THAT(error_of(write("a.txt", "\xED\xA0\x80")), HasSubstr("at byte 0 "));
    EXPECT_THAT(error_of(write("a.txt", "cut \xC3")), HasSubstr("at byte 4 "));
}

TEST_F(TextReaderTest, TheFirstByteThatIsNotUtf8IsNamedAlsoBetweenPieces) {
    for (size_t place = kMiB - 5; place <= kMiB + 6; ++place) {
        std::string text = repeated("x", 2 * kMiB + 100);
        text[place] = '\xC3';
        EXPECT_THAT(error_of(write("a.txt", text)), HasSubstr("at byte " + std::to_string(place) + " "));
        text.resize(place + 1);
        EXPECT_THAT(error_of(write("a.txt", text)), HasSubstr("at byte " + std::to_string(place) + " "));
    }
}

}  // namespace
}  // namespace accrue
