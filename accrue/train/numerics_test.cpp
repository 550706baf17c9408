#include "accrue/train/numerics.h"

#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/hash.h"
#include "accrue/base/test_places.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/numerics.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kExpectedBits = source_folder() / "tests/expected_bits.txt";

// Each change of the file wants a number of its own: checkpoints tell by it that they have other bits.
TEST(NumericsTest, TheVersionBelongsToTheExpectedBits) {
    const std::map<int64_t, std::string> files = {{1, "3ffa8e35a732d2f2c430f62bddf617d6"}};
    const std::string text = read_text(kExpectedBits);
    const std::string hash = hash_of(std::as_bytes(std::span(text)));
    ASSERT_TRUE(files.contains(kNumericsVersion));
    EXPECT_EQ(hash, files.at(kNumericsVersion)) << "tests/expected_bits.txt has changed: raise kNumericsVersion in "
                                                   "accrue/kernels/numerics.h and add the hash here.";
}

Settings tiny_settings(DType dtype) {
    Settings settings;
    settings.compute.dtype = dtype;
    settings.window.grain_samples = 4;
    return settings;
}

std::shared_ptr<const ModelSpec> tiny() {
    return known_families().preset("tiny");
}

Numerics tiny_numerics(const Settings& settings, int threads = 2) {
    Pool pool(threads);
    return numerics_of(settings, *tiny(), 256, pool);
}

TEST(NumericsTest, DependOnNeitherThreadsNorWhatMayChange) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        const Numerics numerics = tiny_numerics(tiny_settings(dtype));
        EXPECT_EQ(numerics.version, kNumericsVersion);
        EXPECT_EQ(numerics.device, word_of(usual_device().kind));
        EXPECT_EQ(tiny_numerics(tiny_settings(dtype), 1), numerics);
        EXPECT_EQ(tiny_numerics(tiny_settings(dtype), 3), numerics);
        Settings changed = tiny_settings(dtype);
        changed.optimizer.rate = 0.5;
        changed.optimizer.clip_norm = 0;
        changed.window.micro_batch_grains = 7;
        changed.window.samples = 5;
        changed.compute.recompute = Recompute::block;
        changed.run.seed = 99;
        EXPECT_EQ(tiny_numerics(changed), numerics) << name_of(dtype);
    }
}

TEST(NumericsTest, TellModelsAndNumberFormatsApart) {
    Pool pool(1);
    const Settings settings = tiny_settings(DType::bf16);
    const std::string here = numerics_of(settings, *tiny(), 256, pool).fingerprint;
    EXPECT_NE(numerics_of(tiny_settings(DType::fp32), *tiny(), 256, pool).fingerprint, here);
    auto json = nlohmann::json::parse(tiny()->config_json());
    json["rms_norm_eps"] = 1e-3;
    EXPECT_NE(numerics_of(settings, *known_families().parse(json.dump(), "test", 0), 256, pool).fingerprint, here);
    const auto deeper = known_families().shaped("tiny", {.layers = 9}, {});  // two of them are looked at
    EXPECT_EQ(numerics_of(settings, *deeper, 256, pool).fingerprint, here);
}

// The fingerprints of instruction sets differ just where their names in the numerics do.
TEST(NumericsTest, NameTheSetWhoseBitsComeOut) {
    using enum cpu::InstructionSet;
    if (cpu::best_instruction_set() < avx512) {
        GTEST_SKIP() << "this processor has only " << cpu::title_of(cpu::best_instruction_set());
    }
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        std::map<std::string, std::string> fingerprints;
        for (const auto set : {avx2, avx512, avx512_bf16, amx}) {
            if (set > cpu::best_instruction_set()) {
                continue;
            }
            Settings settings = tiny_settings(dtype);
            settings.compute.instruction_set = cpu::name_of(set);
            const Numerics numerics = tiny_numerics(settings);
            const auto [known, is_new] = fingerprints.emplace(numerics.instruction_set, numerics.fingerprint);
            EXPECT_EQ(known->second, numerics.fingerprint) << name_of(dtype) << " " << cpu::name_of(set);
            EXPECT_EQ(is_new, dtype == DType::bf16 || set <= avx512) << name_of(dtype) << " " << cpu::name_of(set);
        }
        std::set<std::string> different;
        for (const auto& [name, fingerprint] : fingerprints) {
            different.insert(fingerprint);
        }
        EXPECT_EQ(different.size(), fingerprints.size()) << name_of(dtype);
    }
}

std::string refusal(const std::optional<NumericsRecord>& stored, const Numerics& now) {
    try {
        (void)continued_numerics(stored, now, 7, OtherBits::refuse);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(NumericsTest, OtherBitsAreRefusedWithWhatBringsTheOldOnesBack) {
    const Numerics before{.device = "cpu", .instruction_set = "avx512-bf16", .version = 1, .fingerprint = "0123456789"};
    const NumericsRecord stored{.now = before, .changes = {}};
    EXPECT_EQ(refusal(stored, before), "");
    Numerics now = before;
    now.instruction_set = "amx";
    EXPECT_THAT(refusal(stored, now), HasSubstr("--set compute.instruction_set=avx512-bf16"));
    EXPECT_THAT(refusal(stored, now), HasSubstr("--accept-other-bits"));
    now = before;
    now.device = "reference";
    EXPECT_THAT(refusal(stored, now), HasSubstr("--set compute.device=cpu"));
    now = before;
    now.version = 2;
    EXPECT_THAT(refusal(stored, now), HasSubstr("numerics version 1; this one has 2"));
    now = before;
    now.fingerprint = "abcdefghij";
    EXPECT_THAT(refusal(stored, now),
                HasSubstr("a probe grain, computed as then, gives other bits now (01234567, now abcdefgh)"));
    EXPECT_THAT(refusal(std::nullopt, now), HasSubstr("of an older version of accrue"));
}

TEST(NumericsTest, AcceptedBitsAreRecordedAndReadBack) {
    const Numerics first{.device = "cpu", .instruction_set = "avx2", .version = 1, .fingerprint = "a"};
    const Numerics second{.device = "cpu", .instruction_set = "amx", .version = 1, .fingerprint = "b"};
    NumericsRecord record =
        continued_numerics(NumericsRecord{.now = first, .changes = {}}, second, 7, OtherBits::accept);
    record = continued_numerics(numerics_record_of(to_json(record)), first, 9, OtherBits::accept);
    EXPECT_EQ(record.now, first);
    ASSERT_EQ(record.changes.size(), 2U);
    EXPECT_EQ(record.changes[0].step, 7);
    EXPECT_EQ(record.changes[0].from, first);
    EXPECT_EQ(record.changes[1].step, 9);
    EXPECT_EQ(record.changes[1].to, first);
    NumericsRecord with_guest = record;
    with_guest.guests.push_back({.step = 8, .worker = "desk", .numerics = second});
    const NumericsRecord read =
        numerics_record_of(to_json(continued_numerics(with_guest, second, 12, OtherBits::accept)));
    ASSERT_EQ(read.guests.size(), 1U) << "that the law was given up stays";
    EXPECT_EQ(read.guests[0].worker, "desk");
    EXPECT_EQ(read.guests[0].numerics, second);
    EXPECT_EQ(continued_numerics(record, first, 11, OtherBits::refuse).changes.size(), 2U);
    EXPECT_EQ(continued_numerics(std::nullopt, first, 3, OtherBits::accept).changes.size(), 1U);
}

}  // namespace
}  // namespace accrue
