#include "accrue/train/device_choice.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::function<void()>& what) {
    try {
        what();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

Settings with(const std::string& override) {
    return read_settings("", {override});
}

std::string settled(Settings settings, DeviceUse use = DeviceUse::compute) {
    (void)settle_device(settings, known_families().preset("tiny"), 64, use);
    return text_of(*settings.compute.device);
}

bool has_gpu() {
    return !gpus_of_machine().found.empty();
}

// Written as it is read, so that a run finds its GPU again.
TEST(DeviceChoiceTest, ADeviceIsNamedWithItsNumber) {
    const std::pair<const char*, DeviceName> names[] = {{"cpu", DeviceKind::cpu},
                                                        {"reference", DeviceKind::reference},
                                                        {"cuda", DeviceKind::cuda},
                                                        {"cuda:12", {DeviceKind::cuda, 12}}};
    for (const auto& [text, device] : names) {
        const Settings settings = with(cat("compute.device=", text));
        EXPECT_EQ(settings.compute.device, device) << text;
        EXPECT_THAT(to_toml(settings), HasSubstr(cat("\ndevice = \"", text, "\" ")));
    }
    EXPECT_EQ(with("compute.device=cuda:0").compute.device, DeviceName(DeviceKind::cuda));
    EXPECT_FALSE(with("compute.device=auto").compute.device.has_value());
    for (const char* text : {"cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "gpu", "CUDA"}) {
        EXPECT_THAT(refusal([&] { (void)with(cat("compute.device=", text)); }),
                    HasSubstr("compute.device must be \"auto\""))
            << text;
    }
}

TEST(DeviceChoiceTest, ADeviceThatIsNamedStays) {
    EXPECT_EQ(settled(with("compute.device=cpu")), "cpu");
    EXPECT_EQ(settled(with("compute.device=reference")), "reference");
}

TEST(DeviceChoiceTest, WhereNoneIsNamedItIsTheTestsOwn) {
    const char* const before = std::getenv(kTestDevice);
    const std::string kept = before == nullptr ? "" : before;
    ::setenv(kTestDevice, "reference", 1);
    EXPECT_EQ(settled(Settings()), "reference");
    ::setenv(kTestDevice, "nothing", 1);
    EXPECT_EQ(refusal([] { (void)settled(Settings()); }), "ACCRUE_TEST_DEVICE is \"nothing\", which is no device.");
    before == nullptr ? ::unsetenv(kTestDevice) : ::setenv(kTestDevice, kept.c_str(), 1);
}

TEST(DeviceChoiceTest, WithoutAGpuItIsTheProcessor) {
    if (has_gpu()) {
        GTEST_SKIP() << "there is a GPU";
    }
    EXPECT_THAT(settled(Settings()), testing::AnyOf("cpu", "reference"));
    EXPECT_FALSE(gpus_of_machine().why_none.empty());
}

TEST(DeviceChoiceTest, AGpuThatIsNotThereIsRefusedWithTheReasonAndWhatToDo) {
    if (!has_gpu()) {
        const std::string text = refusal([] { (void)settled(with("compute.device=cuda")); });
        EXPECT_THAT(text, StartsWith("compute.device is \"cuda\", but "));
        EXPECT_THAT(text, HasSubstr(gpus_of_machine().why_none));
        EXPECT_THAT(text, HasSubstr("--set compute.device=cpu"));
        return;
    }
    EXPECT_THAT(refusal([] { (void)settled(with("compute.device=cuda:99")); }),
                HasSubstr("compute.device is \"cuda:99\", but this process sees "));
}

// Another machine may have it.
TEST(DeviceChoiceTest, APlanMayBeMadeForAGpuThatIsNotThere) {
    EXPECT_EQ(settled(with("compute.device=cuda:99"), DeviceUse::plan), "cuda:99");
}

TEST(DeviceChoiceTest, HalvesAreNotForTheProcessor) {
    Settings settings = with("compute.dtype=fp16");
    settings.compute.device = DeviceKind::cpu;
    EXPECT_THAT(refusal([&] { (void)settled(settings); }),
                HasSubstr("compute.dtype is \"fp16\", which only GPUs compute (and, slowly, \"reference\"), and "
                          "compute.device is \"cpu\". Use \"bf16\""));
    settings.compute.device = DeviceKind::reference;
    EXPECT_EQ(settled(settings), "reference");
    settings.compute.device = DeviceKind::cuda;
    EXPECT_EQ(settled(settings, DeviceUse::plan), "cuda");
}

TEST(DeviceChoiceTest, OnlyAGpuHasStateElsewhere) {
    for (const char* const state : {"moments", "sums"}) {
        Settings settings = with(cat("compute.host_state=", state));
        for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::reference}) {
            settings.compute.device = kind;
            EXPECT_EQ(refusal([&] { (void)settled(settings); }),
                      cat("compute.host_state is \"", state, "\", and compute.device is \"", text_of(kind),
                          "\", whose state is in the host's memory already: leave compute.host_state at \"none\"."));
        }
        settings.compute.device = DeviceKind::cuda;
        EXPECT_EQ(settled(settings, DeviceUse::plan), "cuda");
    }
}

}  // namespace
}  // namespace accrue
