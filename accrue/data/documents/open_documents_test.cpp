#include <gmock/gmock.h>

#include "accrue/data/documents/document_readers.h"
#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using OpenDocumentsTest = ReaderTest;

TEST_F(OpenDocumentsTest, AnUnknownEndingIsAnErrorThatListsTheKnownOnes) {
    const auto known = HasSubstr("Known endings: .txt, .jsonl, .bin, .safetensors, each also with .gz or .zst behind");
    EXPECT_THAT(error_of(write("a.csv", "x")),
                AllOf(HasSubstr("a.csv has the ending .csv, which is not known"), known));
    EXPECT_THAT(error_of(write("a.csv.gz", "x")), AllOf(HasSubstr("a.csv.gz has the ending .csv"), known));
    EXPECT_THAT(error_of(write("plain", "x")), AllOf(HasSubstr("plain has no ending"), known));
    EXPECT_THAT(error_of(write("b.gz", "x")), AllOf(HasSubstr("b.gz has no ending"), known));
}

TEST_F(OpenDocumentsTest, AMissingFileAndAFolderAreErrors) {
    for (const char* name : {"a.txt", "a.jsonl", "a.bin", "a.safetensors", "a.safetensors.gz"}) {
        EXPECT_THAT(error_of(folder_ / name), AllOf(HasSubstr("cannot open"), HasSubstr(name)));
    }
    std::filesystem::create_directories(folder_ / "folder.txt");
    EXPECT_THAT(error_of(folder_ / "folder.txt"), HasSubstr("it is a folder, and a file is needed"));
}

TEST_F(OpenDocumentsTest, KnownEndingsAreRecognised) {
    for (const char* name : {"a.txt", "a.jsonl.gz", "a.bin.zst", "a.safetensors"}) {
        EXPECT_TRUE(has_known_ending(name)) << name;
    }
    for (const char* name : {"a", "a.gz", "txt", "a.txt.xz", "a.txt.gz.gz", "a.json"}) {
        EXPECT_FALSE(has_known_ending(name)) << name;
    }
}

TEST_F(OpenDocumentsTest, TheFirstByteThatIsNotUtf8IsFound) {
    EXPECT_EQ(find_no_utf8("plain größer"), std::string_view::npos);
    EXPECT_EQ(find_no_utf8(""), std::string_view::npos);
    EXPECT_EQ(find_no_utf8("a\xC3"), 1U);
    EXPECT_EQ(find_no_utf8("ß\xC0\x80"), 2U);
}

}  // namespace
}  // namespace accrue
