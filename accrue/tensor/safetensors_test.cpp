#include "accrue/tensor/safetensors.h"

#include <array>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/tensor/dtype.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

class SafetensorsTest : public testing::Test {
protected:
    // A file made by hand from a header and data, to hold what the writer refuses to write.
    [[nodiscard]] fs::path file_of(const std::string& header, size_t data_bytes) const {
        const uint64_t length = header.size();
        std::string text(sizeof length, '\0');
        std::memcpy(text.data(), &length, sizeof length);
        write_text(path_, text + header + std::string(data_bytes, '\1'));
        return path_;
    }

    [[nodiscard]] std::string error_of(const std::string& header, size_t data_bytes) const {
        return error_of([&] { const SafetensorsFile file(file_of(header, data_bytes)); });
    }

    template <class Action>
        requires std::is_invocable_v<Action>
    static std::string error_of(Action action) {
        try {
            action();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    TemporaryFolder folder_;
    fs::path path_ = folder_ / "x.safetensors";
};

TEST_F(SafetensorsTest, WhatIsWrittenComesBack) {
    const std::vector<float> numbers = {1.5F, -0.0F, 3e38F, 4, 5, 6};
    const std::vector<int64_t> integers = {-100, int64_t{1} << 40};
    const std::vector<uint8_t> bytes = {7};
    write_safetensors(path_, {{"w", "F32", {2, 3}, bytes_of(numbers)},
                              {"ids", "I64", {2}, bytes_of(integers)},
                              {"scalar", "U8", {}, bytes_of(bytes)},
                              {"nothing", "F32", {0, 5}, {}}});
    const SafetensorsFile file(path_);
    EXPECT_EQ(file.tensors().size(), 4U);
    EXPECT_TRUE(file.has("w"));
    EXPECT_FALSE(file.has("v"));
    EXPECT_THAT(file.at("w").shape, ElementsAre(2, 3));
    EXPECT_EQ(file.at("w").elements(), 6);
    std::vector<float> read(6);
    file.read_floats("w", read);
    EXPECT_EQ(std::memcmp(read.data(), numbers.data(), 24), 0);
    EXPECT_EQ(file.read_integers("ids"), integers);
    EXPECT_THAT(file.read_integers("scalar"), ElementsAre(7));
    file.read_floats("nothing", {});
    std::vector<std::byte> raw(24);
    file.read_bytes(file.at("w"), raw);
    EXPECT_EQ(std::memcmp(raw.data(), numbers.data(), 24), 0);
}

TEST_F(SafetensorsTest, ATensorOfManyPiecesIsCountedAndHashedWhole) {
    const std::vector<float> numbers(700'000, 1.5F);
    int64_t counted = 0;
    int64_t pieces = 0;
    const std::string digest =
        write_safetensors(path_, {{"w", "F32", {700'000}, bytes_of(numbers)}}, [&](int64_t bytes) {
            counted += bytes;
            ++pieces;
        });
    const std::string text = read_text(path_);
    EXPECT_EQ(counted, std::ssize(text));
    EXPECT_GE(pieces, 3) << "whoever waits sees it grow";
    EXPECT_EQ(digest, hash_of(std::as_bytes(std::span(text))));
}

TEST_F(SafetensorsTest, EqualContentsGiveEqualBytesWhateverTheOrder) {
    const std::vector<float> a = {1, 2};
    const std::vector<float> b = {3};
    const std::string digest =
        write_safetensors(path_, {{"b", "F32", {1}, bytes_of(b)}, {"a", "F32", {2}, bytes_of(a)}});
    const std::string text = read_text(path_);
    EXPECT_EQ(digest, hash_of(std::as_bytes(std::span(text))));
    EXPECT_EQ(write_safetensors(path_, {{"a", "F32", {2}, bytes_of(a)}, {"b", "F32", {1}, bytes_of(b)}}), digest);
    EXPECT_EQ(read_text(path_), text);
    EXPECT_EQ(text.substr(8, text.size() - 8 - 12),
              R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}     )");
    EXPECT_EQ((text.size() - 12) % 8, 0U);
}

TEST_F(SafetensorsTest, EveryFloatTypeIsReadAsFloat) {
    const std::vector<Bf16> bf16 = {Bf16(1.5F), Bf16(-2.0F)};
    const std::vector<uint16_t> f16 = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x7e00, 0x8000, 0x7bff};
    const std::vector<double> f64 = {0.1, 1e300};
    write_safetensors(path_, {{"bf16", "BF16", {2}, bytes_of(bf16)},
                              {"f16", "F16", {7}, bytes_of(f16)},
                              {"f64", "F64", {2}, bytes_of(f64)}});
    const SafetensorsFile file(path_);
    std::vector<float> two(2);
    file.read_floats("bf16", two);
    EXPECT_THAT(two, ElementsAre(1.5F, -2.0F));
    file.read_floats("f64", two);
    EXPECT_THAT(two, ElementsAre(0.1F, INFINITY));
    std::vector<float> seven(7);
    file.read_floats("f16", seven);
    EXPECT_THAT(std::span(seven).first(4), ElementsAre(1.0F, -2.0F, 0x1p-24F, INFINITY));
    EXPECT_TRUE(std::isnan(seven[4]));
    EXPECT_TRUE(seven[5] == 0.0F && std::signbit(seven[5]));
    EXPECT_EQ(seven[6], 65504.0F);
}

TEST_F(SafetensorsTest, EveryIntegerTypeIsReadAsInt64) {
    const std::vector<int32_t> i32 = {-5, 1 << 30};
    const std::vector<int16_t> i16 = {-6, 300};
    const std::vector<uint8_t> u8 = {0, 255};
    write_safetensors(
        path_,
        {{"i16", "I16", {2}, bytes_of(i16)}, {"i32", "I32", {2}, bytes_of(i32)}, {"u8", "U8", {2}, bytes_of(u8)}});
    const SafetensorsFile file(path_);
    EXPECT_THAT(file.read_integers("i32"), ElementsAre(-5, 1 << 30));
    EXPECT_THAT(file.read_integers("i16"), ElementsAre(-6, 300));
    EXPECT_THAT(file.read_integers("u8"), ElementsAre(0, 255));
}

// Conversion reads in pieces of 65,536 elements.
TEST_F(SafetensorsTest, ATensorLargerThanAPieceIsReadWhole) {
    std::vector<Bf16> numbers(150'000);
    for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i].bits = static_cast<uint16_t>(i % 0x7f80);
    }
    write_safetensors(path_, {{"w", "BF16", {300, 500}, bytes_of(numbers)}});
    std::vector<float> read(numbers.size());
    SafetensorsFile(path_).read_floats("w", read);
    for (size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(read[i], static_cast<float>(numbers[i])) << i;
    }
}

TEST_F(SafetensorsTest, FilesOfOtherProgramsAreRead) {
    for (const char* name : {"gpt2", "llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"}) {
        const fs::path folder = source_folder() / "tests/golden" / name;
        const SafetensorsFile batch(folder / "batch.safetensors");
        EXPECT_EQ(batch.at("input_ids").shape, batch.at("labels").shape);
        EXPECT_EQ(batch.read_integers("input_ids").size(), static_cast<size_t>(batch.at("input_ids").elements()));
        EXPECT_FALSE(SafetensorsFile(folder / "model.safetensors").tensors().empty());
    }
}

TEST_F(SafetensorsTest, AskingForTheWrongThingIsAnError) {
    const std::vector<float> numbers = {1, 2};
    const std::vector<uint16_t> shorts = {1};
    write_safetensors(path_, {{"w", "F32", {2}, bytes_of(numbers)}, {"s", "U16", {1}, bytes_of(shorts)}});
    const SafetensorsFile file(path_);
    std::array<float, 2> two{};
    std::array<float, 1> one{};
    EXPECT_THAT(error_of([&] { (void)file.at("v"); }), AllOf(HasSubstr("no tensor v"), HasSubstr("It has: s, w")));
    EXPECT_THAT(error_of([&] { file.read_floats("w", one); }),
                AllOf(HasSubstr("tensor w has the shape [2]"), HasSubstr("1 numbers")));
    EXPECT_THAT(error_of([&] { file.read_floats("s", one); }), HasSubstr("tensor s has the dtype U16; F32"));
    EXPECT_THAT(error_of([&] { (void)file.read_integers("w"); }), HasSubstr("tensor w has the dtype F32; I64"));
    EXPECT_THAT(error_of([&] { file.read_bytes(file.at("w"), std::as_writable_bytes(std::span(one))); }),
                AllOf(HasSubstr("8 bytes"), HasSubstr("4 bytes")));
    file.read_floats("w", two);
    EXPECT_EQ(two[1], 2.0F);
}

TEST_F(SafetensorsTest, AWrongHeaderIsAnErrorThatNamesTheFile) {
    EXPECT_THAT(error_of("{", 0), AllOf(HasSubstr("x.safetensors"), HasSubstr("not JSON")));
    EXPECT_THAT(error_of("", 0), HasSubstr("not JSON"));
    EXPECT_THAT(error_of("[]", 0), HasSubstr("not a JSON object"));
    EXPECT_THAT(error_of("{}", 3), HasSubstr("last 3 bytes belong to no tensor"));
    EXPECT_EQ(error_of(R"({"__metadata__":{"any":"thing"}}   )", 0), "no error");
}

// An error that quotes such a value would write it level by level, and the stack would end first.
TEST_F(SafetensorsTest, AHeaderWithTooManyLevelsIsAnError) {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "shape": [)" + deep + R"(], "data_offsets": [0, 4]}})", 4),
                AllOf(HasSubstr("x.safetensors"), HasSubstr("more than 100 levels")));
}

TEST_F(SafetensorsTest, AHeaderLongerThanTheFileOrTheLimitIsAnError) {
    write_text(path_, "short");
    const auto open = [&] { const SafetensorsFile file(path_); };
    EXPECT_THAT(error_of(open), AllOf(HasSubstr("x.safetensors"), HasSubstr("it has 5 bytes")));
    write_text(path_, std::string("\x50\0\0\0\0\0\0\0{}", 10));
    EXPECT_THAT(error_of(open), AllOf(HasSubstr("its header has 80 bytes"), HasSubstr("after 2 of them")));
    write_text(path_, "\xff\xff\xff\xff\xff\xff\xff\xff{}");
    EXPECT_THAT(error_of(open), HasSubstr("would have 18446744073709551615 bytes"));
    fs::remove(path_);
    EXPECT_THAT(error_of(open), AllOf(HasSubstr("x.safetensors"), HasSubstr("No such file")));
}

TEST_F(SafetensorsTest, AWrongEntryIsAnErrorThatNamesTheTensor) {
    const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
    };
    EXPECT_EQ(error_of(entry("F32", "[2]", "[0,8]"), 8), "no error");
    EXPECT_THAT(error_of(entry("F33", "[2]", "[0,8]"), 8), HasSubstr("tensor w has the dtype F33, which is not known"));
    EXPECT_THAT(error_of(entry("F32", "[2]", "[0,8]"), 7),
                AllOf(HasSubstr("tensor w ends at byte 8"), HasSubstr("only 7")));
    EXPECT_THAT(error_of(entry("F32", "[2]", "[8,0]"), 8), HasSubstr("tensor w has data_offsets [8,0]"));
    EXPECT_THAT(error_of(entry("F32", "[2]", "[0]"), 8), HasSubstr("tensor w has data_offsets [0]"));
    EXPECT_THAT(error_of(entry("F32", "[2]", "[-4,4]"), 8), HasSubstr("tensor w has -4"));
    EXPECT_THAT(error_of(entry("F32", "[2.0]", "[0,8]"), 8), HasSubstr("tensor w has 2.0"));
    EXPECT_THAT(error_of(entry("F32", "[18446744073709551615]", "[0,8]"), 8),
                HasSubstr("tensor w has 18446744073709551615"));
    EXPECT_THAT(error_of(entry("F32", "[3]", "[0,8]"), 8),
                HasSubstr("tensor w has 8 bytes, which do not make F32 [3]"));
    EXPECT_THAT(error_of(entry("F32", "[-2]", "[0,8]"), 8), HasSubstr("tensor w has -2"));
    EXPECT_THAT(error_of(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0),
                HasSubstr("do not make F32 [4294967296,"));
    EXPECT_THAT(error_of(entry("F32", "2", "[0,8]"), 8), HasSubstr("tensor w has no list shape"));
    EXPECT_THAT(error_of(R"({"w":{"dtype":"U8","shape":[1]}})", 1), HasSubstr("tensor w has no list data_offsets"));
    EXPECT_THAT(error_of(R"({"w":{"shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("tensor w has no dtype"));
    EXPECT_THAT(error_of(R"({"w":5})", 0), HasSubstr("tensor w has no dtype"));
}

TEST_F(SafetensorsTest, OverlapsHolesAndTwinsAreErrors) {
    const auto two = [](const std::string& first, const std::string& second, const std::string& name) {
        return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first + R"(},")" + name +
               R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
    };
    EXPECT_EQ(error_of(two("[4,8]", "[0,4]", "b"), 8), "no error");
    EXPECT_THAT(error_of(two("[0,4]", "[2,6]", "b"), 6), HasSubstr("tensor b overlaps tensor a"));
    EXPECT_THAT(error_of(two("[0,4]", "[0,4]", "b"), 4), HasSubstr("overlaps tensor"));
    EXPECT_THAT(error_of(two("[0,4]", "[6,10]", "b"), 10), HasSubstr("tensor b follows a hole of 2 bytes"));
    EXPECT_THAT(error_of(two("[0,4]", "[4,8]", "b"), 9), HasSubstr("last 1 bytes belong to no tensor"));
    EXPECT_THAT(error_of(two("[0,4]", "[4,8]", "a"), 8), HasSubstr("two entries named a"));
}

TEST_F(SafetensorsTest, TheWriterRefusesWhatItCouldNotRead) {
    const std::vector<float> numbers = {1, 2};
    const auto write = [&](std::vector<TensorToStore> tensors) {
        return error_of([&] { write_safetensors(path_, std::move(tensors)); });
    };
    EXPECT_THAT(write({{"w", "F32", {3}, bytes_of(numbers)}}),
                HasSubstr("tensor w cannot be written: 8 bytes do not make F32 [3]"));
    EXPECT_THAT(write({{"w", "F31", {2}, bytes_of(numbers)}}), HasSubstr("do not make F31"));
    EXPECT_THAT(write({{"w", "F32", {-2}, bytes_of(numbers)}}), HasSubstr("do not make F32 [-2]"));
    EXPECT_THAT(write({{"w", "F32", {2}, bytes_of(numbers)}, {"w", "F32", {2}, bytes_of(numbers)}}),
                HasSubstr("the name is taken"));
    EXPECT_THAT(write({{"__metadata__", "F32", {2}, bytes_of(numbers)}}), HasSubstr("the name is taken"));
    EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace accrue
