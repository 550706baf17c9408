#include "accrue/tensor/gguf.h"

#include <bit>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

template <class T>
std::string bytes_of_number(T value) {
    std::string bytes(sizeof(T), ' ');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}

template <class T>
T number_at(const std::string& bytes, size_t place) {
    T value{};
    std::memcpy(&value, bytes.data() + place, sizeof(T));
    return value;
}

std::string text_field(const std::string& text) {
    return bytes_of_number<uint64_t>(text.size()) + text;
}

GgufMetadata every_type() {
    return {{"a.u8", uint8_t{200}},
            {"a.i8", int8_t{-3}},
            {"a.u16", uint16_t{60000}},
            {"a.i16", int16_t{-30000}},
            {"a.u32", uint32_t{4000000000U}},
            {"a.i32", int32_t{-7}},
            {"a.f32", 0.5F},
            {"a.yes", true},
            {"a.no", false},
            {"a.text", std::string("hällo")},
            {"a.u64", uint64_t{1} << 63},
            {"a.i64", -(int64_t{1} << 40)},
            {"a.f64", 0.1},
            {"l.u8", GgufArray(std::vector<uint8_t>{1, 2})},
            {"l.i8", GgufArray(std::vector<int8_t>{-1})},
            {"l.u16", GgufArray(std::vector<uint16_t>{1, 2, 3})},
            {"l.i16", GgufArray(std::vector<int16_t>{-1, 2})},
            {"l.u32", GgufArray(std::vector<uint32_t>{5})},
            {"l.i32", GgufArray(std::vector<int32_t>{-5, 6})},
            {"l.f32", GgufArray(std::vector<float>{0.5F, -1.0F})},
            {"l.bool", GgufArray(std::vector<bool>{true, false, true})},
            {"l.text", GgufArray(std::vector<std::string>{"", "a", "bc"})},
            {"l.none", GgufArray(std::vector<std::string>{})},
            {"l.u64", GgufArray(std::vector<uint64_t>{7})},
            {"l.i64", GgufArray(std::vector<int64_t>{-7})},
            {"l.f64", GgufArray(std::vector<double>{0.1, 0.2})}};
}

class GgufTest : public ::testing::Test {
protected:
    // A small file with tensors of all three formats, none of which fills its alignment.
    void write_sample(const GgufMetadata& metadata) const {
        GgufWriter writer(path_, metadata,
                          {{.name = "wide", .format = FloatFormat::bf16, .shape = {2, 3}},
                           {.name = "flat", .format = FloatFormat::fp32, .shape = {5}},
                           {.name = "deep", .format = FloatFormat::fp16, .shape = {2, 1, 2, 2}}});
        writer.write(stored_bytes(std::vector<float>{1, 2, 3, 4, 5, 6}, FloatFormat::bf16, "wide"));
        writer.write(stored_bytes(std::vector<float>{0.1F, 0.2F, 0.3F, 0.4F, 0.5F}, FloatFormat::fp32, "flat"));
        writer.write(stored_bytes(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, FloatFormat::fp16, "deep"));
        const int64_t size = writer.finish();
        EXPECT_EQ(size, static_cast<int64_t>(fs::file_size(path_)));
    }
    // The sample with one field of it replaced.
    void write_damaged(const std::string& found, const std::string& instead) const {
        write_sample({{"a", uint32_t{1}}});
        std::string bytes = read_text(path_);
        const size_t place = bytes.find(found);
        ASSERT_NE(place, std::string::npos);
        ASSERT_EQ(bytes.find(found, place + 1), std::string::npos) << "more than one such field";
        bytes.replace(place, found.size(), instead);
        write_text(path_, bytes);
    }
    void expect_refused(const std::string& reason) const {
        EXPECT_THAT([&] { const GgufFile file(path_); },
                    ThrowsMessage<Error>(::testing::AllOf(HasSubstr(path_.string()), HasSubstr(reason))));
    }

    TemporaryFolder folder_;
    fs::path path_ = folder_ / "sample.gguf";
};

TEST_F(GgufTest, WhatIsWrittenIsRead) {
    write_sample(every_type());
    const GgufFile file(path_);
    EXPECT_EQ(file.metadata(), every_type());
    EXPECT_EQ(*file.find("a.text"), GgufValue(std::string("hällo")));
    EXPECT_EQ(file.find("b"), nullptr);
    EXPECT_EQ(file.find_tensor("b"), nullptr);
    ASSERT_EQ(file.tensors().size(), 3U);
    const GgufTensor& deep = *file.find_tensor("deep");
    EXPECT_EQ(deep.type, "F16");
    EXPECT_EQ(deep.shape, (std::vector<int64_t>{2, 1, 2, 2}));
    std::vector<float> values(8);
    file.read_floats(deep, values);
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
    std::vector<float> flat(5);
    file.read_floats(*file.find_tensor("flat"), flat);
    EXPECT_EQ(flat, (std::vector<float>{0.1F, 0.2F, 0.3F, 0.4F, 0.5F}));
    std::vector<float> wide(6);
    file.read_floats(*file.find_tensor("wide"), wide);
    EXPECT_EQ(wide, (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_THAT([&] { file.read_floats(deep, flat); }, ThrowsMessage<Error>(HasSubstr("5 were asked for")));
    EXPECT_EQ(type_name_of(*file.find("l.text")), "list of text");
    EXPECT_EQ(type_name_of(*file.find("l.f64")), "list of f64");
    EXPECT_EQ(type_name_of(*file.find("a.i64")), "i64");
}

// Read field by field, as the format's description has them, without the reader.
TEST_F(GgufTest, TheFileFollowsTheFormat) {
    write_sample({{"a.b", uint32_t{7}}});
    const std::string bytes = read_text(path_);
    EXPECT_EQ(bytes.substr(0, 4), "GGUF");
    EXPECT_EQ(number_at<uint32_t>(bytes, 4), 3U);
    EXPECT_EQ(number_at<uint64_t>(bytes, 8), 3U);   // tensors
    EXPECT_EQ(number_at<uint64_t>(bytes, 16), 1U);  // keys
    EXPECT_EQ(number_at<uint64_t>(bytes, 24), 3U);
    EXPECT_EQ(bytes.substr(32, 3), "a.b");
    EXPECT_EQ(number_at<uint32_t>(bytes, 35), 4U);  // u32
    EXPECT_EQ(number_at<uint32_t>(bytes, 39), 7U);
    EXPECT_EQ(number_at<uint64_t>(bytes, 43), 4U);
    EXPECT_EQ(bytes.substr(51, 4), "wide");
    EXPECT_EQ(number_at<uint32_t>(bytes, 55), 2U);
    EXPECT_EQ(number_at<uint64_t>(bytes, 59), 3U) << "the innermost dimension comes first";
    EXPECT_EQ(number_at<uint64_t>(bytes, 67), 2U);
    EXPECT_EQ(number_at<uint32_t>(bytes, 75), 30U);  // BF16
    EXPECT_EQ(number_at<uint64_t>(bytes, 79), 0U);
    const size_t flat = bytes.find("flat");
    EXPECT_EQ(number_at<uint32_t>(bytes, flat + 16), 0U);   // F32
    EXPECT_EQ(number_at<uint64_t>(bytes, flat + 20), 32U);  // 12 bytes, then padding
    const size_t deep = bytes.find("deep");
    EXPECT_EQ(number_at<uint32_t>(bytes, deep + 40), 1U);  // F16
    EXPECT_EQ(number_at<uint64_t>(bytes, deep + 44), 64U);
    EXPECT_EQ(bytes.size() % 32, 0U);

    const GgufFile file(path_);
    int64_t last = 0;
    for (const GgufTensor& tensor : file.tensors()) {
        EXPECT_EQ(tensor.offset % file.alignment(), 0);
        EXPECT_GT(tensor.offset, last);
        last = tensor.offset;
    }
    EXPECT_EQ(file.alignment(), 32);
}

TEST_F(GgufTest, ADamagedHeaderIsRefused) {
    const std::string one_key = bytes_of_number<uint64_t>(1) + text_field("a");
    const auto header = [](uint64_t tensors, uint64_t keys) {
        return bytes_of_number(tensors) + bytes_of_number(keys) + text_field("a");
    };
    write_damaged("GGUF", "GGML");
    expect_refused("does not begin with GGUF");
    write_damaged(std::string("GGUF") + '\3', std::string("GGUF") + '\2');
    expect_refused("has version 2, and only 3 is known");
    write_damaged(header(3, 1), header(uint64_t{1} << 60, 1));
    expect_refused("announces 1152921504606846976 items");
    write_damaged(header(3, 1), header(3, ~uint64_t{0}));
    expect_refused("announces 18446744073709551615 items");
    write_damaged(one_key, bytes_of_number<uint64_t>(1) + bytes_of_number(~uint64_t{0}) + "a");
    expect_refused("key number 0 needs 18446744073709551615 bytes");
    write_damaged(header(3, 1), header(2, 1));
    expect_refused("bytes that belong to no tensor");
    write_damaged("GGUF", "GG");
    expect_refused("");
}

TEST_F(GgufTest, DamagedMetadataIsRefused) {
    const auto u32 = [](uint32_t type) { return text_field("a") + bytes_of_number(type); };
    write_damaged(u32(4), u32(13));
    expect_refused("key a has the type 13, which is not known");
    write_sample({{"a", true}});
    std::string bytes = read_text(path_);
    bytes[bytes.find(u32(7)) + u32(7).size()] = 2;
    write_text(path_, bytes);
    expect_refused("key a holds 2 where 0 or 1 is needed");
    const auto list = [](uint32_t type, uint64_t count) {
        return text_field("a") + bytes_of_number<uint32_t>(9) + bytes_of_number(type) + bytes_of_number(count);
    };
    for (const auto& [instead, reason] :
         std::vector<std::pair<std::string, std::string>>{{list(9, 2), "key a is a list of lists"},
                                                          {list(77, 2), "key a is a list of type 77"},
                                                          {list(0, 1'000'000), "key a announces 1000000 items"}}) {
        write_sample({{"a", GgufArray(std::vector<uint8_t>{1, 2})}});
        bytes = read_text(path_);
        bytes.replace(bytes.find(list(0, 2)), instead.size(), instead);
        write_text(path_, bytes);
        expect_refused(reason);
    }
    write_sample({{"a", uint32_t{1}}, {"b", uint32_t{1}}});
    bytes = read_text(path_);
    bytes.replace(bytes.find(text_field("b")), 9, text_field("a"));
    write_text(path_, bytes);
    expect_refused("key a is there twice");
    for (const uint32_t alignment : {0U, 4U, 24U}) {
        write_sample({{"general.alignment", uint32_t{32}}});
        bytes = read_text(path_);
        bytes.replace(bytes.find("general.alignment") + 21, 4, bytes_of_number(alignment));
        write_text(path_, bytes);
        expect_refused(cat("general.alignment = ", alignment));
    }
}

TEST_F(GgufTest, ADamagedTensorIsRefused) {
    // name, dimensions..., type, place
    const auto flat = [](uint32_t dimensions, int64_t extent, uint32_t type, int64_t place) {
        return text_field("flat") + bytes_of_number(dimensions) + bytes_of_number(extent) + bytes_of_number(type) +
               bytes_of_number(place);
    };
    const std::string whole = flat(1, 5, 0, 32);
    const std::vector<std::pair<std::string, std::string>> cases = {
        {flat(0, 5, 0, 32), "tensor \"flat\" has 0 dimensions"},
        {flat(5, 5, 0, 32), "tensor \"flat\" has 5 dimensions"},
        {flat(1, 0, 0, 32), "tensor \"flat\" has a shape that is empty"},
        {flat(1, -5, 0, 32), "tensor \"flat\" has a shape"},
        {flat(1, int64_t{1} << 62, 0, 32), "tensor \"flat\" has a shape"},
        {flat(1, 5, 4, 32), "tensor \"flat\" has the type 4, which is not known"},
        {flat(1, 5, 8, 32), "not made of whole blocks of Q8_0"},
        {flat(1, 5, 0, 0), "tensor \"flat\" begins at byte 0 of the data, but its place is 32"},
        {flat(1, 5, 0, 40), "begins at byte 40"},
        {flat(1, 5, 0, -32), "begins at byte -32"},
        {flat(1, 5000, 0, 32), "tensor \"flat\" has 20000 bytes at 32 of the data, but the file ends before"}};
    for (const auto& [instead, reason] : cases) {
        SCOPED_TRACE(reason);
        write_damaged(whole, instead);
        expect_refused(reason);
    }
    write_damaged("deep", "flat");
    expect_refused("tensor \"flat\" is there twice");
    write_damaged(text_field("deep"), bytes_of_number<uint64_t>(64) + "deep");
    expect_refused("has a name of 64 bytes, and at most 63 are allowed");
    write_sample({});
    write_text(path_, read_text(path_) + std::string(32, '\0'));
    expect_refused("has 32 bytes that belong to no tensor");
}

TEST_F(GgufTest, AQuantizedTensorIsListedButNotRead) {
    GgufWriter writer(path_, {}, {{.name = "q", .format = FloatFormat::bf16, .shape = {17}}});
    writer.write(std::vector<std::byte>(34));
    (void)writer.finish();
    std::string bytes = read_text(path_);
    const std::string bf16 = bytes_of_number<uint64_t>(17) + bytes_of_number<uint32_t>(30);
    bytes.replace(bytes.find(bf16), bf16.size(), bytes_of_number<uint64_t>(32) + bytes_of_number<uint32_t>(8));
    write_text(path_, bytes);
    const GgufFile file(path_);
    EXPECT_EQ(file.tensors().front().type, "Q8_0");
    EXPECT_EQ(file.tensors().front().bytes, 34);
    std::vector<float> values(32);
    EXPECT_THAT([&] { file.read_floats(file.tensors().front(), values); },
                ThrowsMessage<Error>(HasSubstr("tensor q has the type Q8_0; F32, BF16 or F16 is needed")));
}

// Whatever the bytes are: an error or a file whose tensors lie inside it, never anything else.
TEST_F(GgufTest, NoDamageDoesMoreThanThrow) {
    write_sample(every_type());
    const std::string whole = read_text(path_);
    // Not through write_text(), and not over the file before it: both wait for the disk.
    const auto write = [&](const std::string& bytes) {
        fs::remove(path_);
        OutputFile(path_).write(bytes);
    };
    for (size_t length = 0; length + 32 < whole.size(); ++length) {
        write(whole.substr(0, length));
        EXPECT_THROW(GgufFile{path_}, Error) << length;
    }
    for (uint64_t seed = 0; seed < 3000; ++seed) {
        std::string bytes = whole;
        for (uint64_t flip = 0; flip < 1 + seed % 3; ++flip) {
            bytes[mix(seed, flip) % bytes.size()] = static_cast<char>(mix(seed, flip + 100));
        }
        write(bytes);
        try {
            const GgufFile file(path_);
            for (const GgufTensor& tensor : file.tensors()) {
                EXPECT_LE(tensor.offset + tensor.bytes, static_cast<int64_t>(bytes.size()));
            }
        } catch (const Error&) {
            continue;
        }
    }
}

TEST_F(GgufTest, TheWriterRefusesWhatTheFormatForbids) {
    const auto write = [&](const GgufMetadata& metadata, const std::vector<GgufTensorToStore>& tensors) {
        return [=, this] { const GgufWriter writer(path_, metadata, tensors); };
    };
    EXPECT_THAT(write({{"a", true}, {"a", false}}, {}), ThrowsMessage<Error>(HasSubstr("key \"a\"")));
    EXPECT_THAT(write({{"", true}}, {}), ThrowsMessage<Error>(HasSubstr("empty or too long")));
    EXPECT_THAT(write({{"general.alignment", uint32_t{64}}}, {}), ThrowsMessage<Error>(HasSubstr("aligned to 32")));
    EXPECT_THAT(write({}, {{.name = "x", .shape = {1}}, {.name = "x", .shape = {1}}}),
                ThrowsMessage<Error>(HasSubstr("there twice")));
    EXPECT_THAT(write({}, {{.name = std::string(64, 'x'), .shape = {1}}}),
                ThrowsMessage<Error>(HasSubstr("empty or too long")));
    EXPECT_THAT(write({}, {{.name = "x", .shape = {}}}), ThrowsMessage<Error>(HasSubstr("0 dimensions")));
    EXPECT_THAT(write({}, {{.name = "x", .shape = {2, 0}}}), ThrowsMessage<Error>(HasSubstr("the extent 0")));
}

TEST_F(GgufTest, AFileThatIsNotFinishedDoesNotAppear) {
    {
        GgufWriter writer(path_, {}, {{.name = "x", .shape = {2}}});
        EXPECT_THAT([&] { writer.write(std::vector<std::byte>(4)); },
                    ThrowsMessage<Error>(HasSubstr("tensor x needs 8 bytes, but 4 were given")));
        EXPECT_THAT([&] { (void)writer.finish(); }, ThrowsMessage<Error>(HasSubstr("announced but not written")));
        writer.write(std::vector<std::byte>(8));
        EXPECT_THAT([&] { writer.write(std::vector<std::byte>(8)); },
                    ThrowsMessage<Error>(HasSubstr("all 1 tensors are written already")));
    }
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_FALSE(fs::exists(path_.parent_path() / ("." + path_.filename().string() + ".partial")));
}

}  // namespace
}  // namespace accrue
