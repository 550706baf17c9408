#include "accrue/base/memory.h"

#include <limits>

#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// A made-up machine: 16 GiB, 8 of them free, and a process that holds 100 MiB, 80 of them its own.
class MemoryTest : public ::testing::Test {
protected:
    MemoryTest() {
        put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 10 kB\nMemAvailable:    8388608 kB\n");
        put("proc/self/status",
            "Name:\taccrue\nVmSize:\t  524288 kB\nVmHWM:\t  122880 kB\nVmRSS:\t  102400 kB\nRssAnon:\t   81920 kB\n"
            "VmData:\t  204800 kB\nThreads:\t2\n");
        put("proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max data size             unlimited            unlimited            bytes     \n"
            "Max address space         unlimited            unlimited            bytes     \n");
    }

    void put(const std::string& name, const std::string& text) {
        std::filesystem::create_directories((folder_ / name).parent_path());
        write_text(folder_ / name, text);
    }
    [[nodiscard]] MemoryFacts facts() const { return read_memory_facts(folder_.path()); }
    [[nodiscard]] MemoryBound bound() const { return memory_bound(facts()); }

    TemporaryFolder folder_;
};

TEST_F(MemoryTest, WithoutLimitsTheMachineSaysWhatThereIs) {
    EXPECT_EQ(facts().physical_bytes, 16 * kGiB);
    EXPECT_EQ(facts().process.peak_resident_bytes, 120 * kMiB);
    EXPECT_EQ(bound().bytes, 80 * kMiB + 8 * kGiB - kGiB / 2) << "own pages and what is free, but for 1/32";
    EXPECT_NE(bound().reason.find("7.58 GiB"), std::string::npos) << bound().reason;
    EXPECT_EQ(facts().pressure, 0);
}

TEST_F(MemoryTest, AGroupOfVersion2BindsWithItsParents) {
    put("proc/self/cgroup", "0::/slice/job\n");
    put("sys/fs/cgroup/slice/job/memory.max", "max\n");
    put("sys/fs/cgroup/slice/job/memory.current", "104857600\n");
    EXPECT_TRUE(facts().groups.empty());
    put("sys/fs/cgroup/slice/memory.max", "2147483648\n");
    put("sys/fs/cgroup/slice/memory.current", "1073741824\n");
    put("sys/fs/cgroup/slice/memory.stat", "anon 5\nactive_file 104857600\ninactive_file 209715200\n");
    EXPECT_EQ(bound().bytes, (2048 - 64 - (1024 - 300 - 80)) * kMiB) << "file pages and own pages are no obstacle";
    EXPECT_NE(bound().reason.find("/slice (memory.max)"), std::string::npos) << bound().reason;
    put("sys/fs/cgroup/slice/job/memory.high", "671088640\n");
    EXPECT_EQ(bound().bytes, 640 * kMiB - 20 * kMiB - 20 * kMiB);
}

TEST_F(MemoryTest, AGroupOfVersion1BindsEvenIfItsPathIsTheHosts) {
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/0123\n3:cpu,cpuacct:/x\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "314572800\n");
    put("sys/fs/cgroup/memory/memory.stat",
        "active_file 7\ntotal_active_file 52428800\ntotal_inactive_file 52428800\n");
    EXPECT_EQ(bound().bytes, (1024 - 32 - (300 - 100 - 80)) * kMiB);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_TRUE(facts().groups.empty()) << "that number means no limit";
}

TEST_F(MemoryTest, AGroupThatOthersHaveFilledLeavesNothing) {
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "1073741824\n");
    put("sys/fs/cgroup/memory.current", "4294967296\n");
    EXPECT_EQ(bound().bytes, 0);
}

TEST_F(MemoryTest, UlimitsCountWhatIsMapped) {
    put("proc/self/limits",
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         1073741824           unlimited            bytes     \n");
    EXPECT_EQ(bound().bytes, 100 * kMiB + kGiB - 512 * kMiB - kAddressesOfAThread);
    EXPECT_EQ(bound().address_bytes, 512 * kMiB - kAddressesOfAThread);
    EXPECT_NE(bound().reason.find("ulimit -v is 1.00 GiB"), std::string::npos) << bound().reason;
    put("proc/self/limits", "Max data size             419430400            unlimited            bytes     \n");
    EXPECT_EQ(bound().bytes, 100 * kMiB + 400 * kMiB - 200 * kMiB - kAddressesOfAThread);
}

TEST_F(MemoryTest, PressureComesFromTheGroupAndElseFromTheMachine) {
    put("proc/pressure/memory", "some avg10=9.00 avg60=1.00 avg300=0.00 total=1\nfull avg10=2.50 avg60=0.00 total=1\n");
    EXPECT_DOUBLE_EQ(facts().pressure, 0.025);
    put("proc/self/cgroup", "0::/job\n");
    put("sys/fs/cgroup/job/memory.pressure", "some avg10=9.00 avg60=1.00\nfull avg10=40.00 avg60=0.00 total=1\n");
    EXPECT_DOUBLE_EQ(facts().pressure, 0.4);
}

TEST_F(MemoryTest, ASystemThatSaysNothingBindsNothing) {
    const TemporaryFolder nothing;
    const MemoryBound free = memory_bound(read_memory_facts(nothing.path()));
    EXPECT_EQ(free.bytes, std::numeric_limits<int64_t>::max());
    EXPECT_EQ(free.reason, "");
}

TEST(ThisMachineTest, SaysWhatItHas) {
    const MemoryFacts facts = read_memory_facts();
    EXPECT_GT(facts.physical_bytes, facts.process.resident_bytes);
    EXPECT_GT(facts.process.resident_bytes, 0);
    EXPECT_GE(facts.process.peak_resident_bytes, facts.process.resident_bytes);
    EXPECT_GT(memory_bound(facts).bytes, 0);
}

}  // namespace
}  // namespace accrue
