#include <cstdlib>

#include <gmock/gmock.h>

#include "accrue/base/file.h"
#include "accrue/data/documents/reader_test.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RowReaderTest : public ReaderTest {
protected:
    struct Stored {
        std::string name;
        std::vector<int64_t> shape;
        std::vector<int64_t> numbers;
    };

    [[nodiscard]] fs::path file(const std::vector<Stored>& tensors) const {
        std::vector<TensorToStore> to_store;
        for (const Stored& tensor : tensors) {
            to_store.push_back({tensor.name, "I64", tensor.shape, std::as_bytes(std::span(tensor.numbers))});
        }
        write_safetensors(folder_ / "x.safetensors", to_store);
        return folder_ / "x.safetensors";
    }

    // Each row's parts in brackets, ! for what counts.
    [[nodiscard]] static std::vector<std::string> shown(const std::vector<Document>& documents) {
        std::vector<std::string> result;
        for (const Document& document : documents) {
            std::string text;
            for (const DocumentPart& part : document.parts) {
                text += part.counted ? "[!" : "[";
                for (const int32_t id : part.ids) {
                    text += cat(" ", id);
                }
                text += "]";
            }
            result.push_back(text);
        }
        return result;
    }
};

TEST_F(RowReaderTest, ARowIsADocument) {
    EXPECT_THAT(shown(read_all(file({{"input_ids", {2, 3}, {1, 2, 3, 4, 5, 6}}}))),
                ElementsAre("[! 1 2 3]", "[! 4 5 6]"));
}

TEST_F(RowReaderTest, LabelsSayWhatCountsAndWhatFollowsIsDropped) {
    const auto path = file({{"input_ids", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 99999, 8, 9, 0, 0}},
                            {"labels", {3, 4}, {-100, -100, 3, 4, 5, -100, 7, -100, -100, -100, -100, -100}}});
    EXPECT_THAT(shown(read_all(path)), ElementsAre("[ 1 2][! 3 4]", "[! 5][ 6][! 7]"));
}

TEST_F(RowReaderTest, RowsThatCountNothingAreCounted) {
    const auto path =
        file({{"input_ids", {3, 2}, {1, 2, 3, 4, 5, 6}}, {"labels", {3, 2}, {-100, -100, 3, 4, -100, -100}}});
    const auto reader = open_documents(path, {});
    for (Document document; reader->next(document);) {
    }
    EXPECT_EQ(reader->skipped(), 2);
}

TEST_F(RowReaderTest, NumbersMayBeStoredInFewerBits) {
    const std::vector<int32_t> four = {1, 2, 70000, 4};
    const std::vector<int16_t> two = {-100, 2, -100, 4};
    write_safetensors(folder_ / "x.safetensors", {{"input_ids", "I32", {2, 2}, std::as_bytes(std::span(four))},
                                                  {"labels", "I16", {2, 2}, std::as_bytes(std::span(two))}});
    EXPECT_THAT(shown(read_all(folder_ / "x.safetensors")), ElementsAre("[ 1][! 2]", "[ 70000][! 4]"));
    const std::vector<uint8_t> one = {1, 255};
    write_safetensors(folder_ / "y.safetensors", {{"input_ids", "U8", {1, 2}, std::as_bytes(std::span(one))}});
    EXPECT_THAT(shown(read_all(folder_ / "y.safetensors")), ElementsAre("[! 1 255]"));
}

TEST_F(RowReaderTest, CompressedFilesReadTheSame) {
    const std::string bytes = read_text(file({{"input_ids", {2, 2}, {1, 2, 3, 4}}}));
    EXPECT_THAT(shown(read_all(write("a.safetensors.gz", gzipped(bytes)))), ElementsAre("[! 1 2]", "[! 3 4]"));
    EXPECT_THAT(shown(read_all(write("a.safetensors.zst", zstandard(bytes)))), ElementsAre("[! 1 2]", "[! 3 4]"));
}

TEST_F(RowReaderTest, ErrorsOfCompressedFilesNameThemAndNotTheUnpackedOne) {
    const std::string bytes = read_text(file({{"ids", {1, 2}, {1, 2}}}));
    for (const std::string& content : {bytes, bytes.substr(0, 12), std::string("no")}) {
        EXPECT_THAT(error_of(write("a.safetensors.gz", gzipped(content))),
                    AllOf(HasSubstr((folder_ / "a.safetensors.gz").string()), Not(HasSubstr("unpacked"))));
    }
    const std::string bad = read_text(file({{"input_ids", {1, 2}, {1, -1}}}));
    EXPECT_THAT(error_of(write("a.safetensors.zst", zstandard(bad))),
                HasSubstr("a.safetensors.zst: input_ids of sample 0"));
}

TEST_F(RowReaderTest, NoRoomToUnpackIsAnError) {
    const auto path = write("a.safetensors.gz", gzipped("x"));
    const char* const before = std::getenv("TMPDIR");
    const std::string kept = before == nullptr ? "" : before;
    setenv("TMPDIR", (folder_ / "missing").c_str(), 1);
    const std::string error = error_of(path);
    before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
    EXPECT_THAT(error, AllOf(HasSubstr("cannot make a temporary folder"), HasSubstr("Set TMPDIR")));
}

TEST_F(RowReaderTest, ALabelThatIsAnotherTokenIsAnError) {
    EXPECT_THAT(
        error_of(file({{"input_ids", {1, 3}, {1, 2, 3}}, {"labels", {1, 3}, {9, 2, 4}}})),
        AllOf(HasSubstr("x.safetensors: labels of sample 0, place 2 is 4, but input_ids has 3"), HasSubstr("-100")));
}

TEST_F(RowReaderTest, NothingThatCountsIsAnError) {
    EXPECT_THAT(error_of(file({{"input_ids", {1, 2}, {1, 2}}, {"labels", {1, 2}, {-100, -100}}})),
                AllOf(HasSubstr("x.safetensors has no counted token"), HasSubstr("-100")));
}

TEST_F(RowReaderTest, WrongShapesDtypesAndNumbersAreErrors) {
    EXPECT_THAT(error_of(file({{"input_ids", {2}, {1, 2}}})), HasSubstr("input_ids has the shape [2]"));
    EXPECT_THAT(error_of(file({{"input_ids", {1, 2}, {1, 2}}, {"labels", {2, 1}, {1, 2}}})),
                HasSubstr("labels has the shape [2, 1], but input_ids has [1, 2]"));
    EXPECT_THAT(error_of(file({{"input_ids", {1, 2}, {1, -7}}})), HasSubstr("input_ids of sample 0, place 1 is -7"));
    const std::vector<float> numbers = {1, 2};
    const std::vector<int64_t> ids = {1, 2};
    write_safetensors(folder_ / "x.safetensors", {{"input_ids", "I64", {1, 2}, std::as_bytes(std::span(ids))},
                                                  {"labels", "F32", {1, 2}, std::as_bytes(std::span(numbers))}});
    EXPECT_THAT(error_of(folder_ / "x.safetensors"),
                HasSubstr("tensor labels has the dtype F32; I64, I32, I16 or U8 is needed"));
}

}  // namespace
}  // namespace accrue
