#include "accrue/tensor/arena.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ArenaTest, BlocksAreAlignedAndApart) {
    Arena arena(1 << 20);
    const Arena::Block first = arena.take(1);
    const Arena::Block second = arena.take(100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0U);
    EXPECT_EQ(second.data() - first.data(), 64);
    EXPECT_EQ(second.bytes(), 100);
    EXPECT_EQ(arena.bytes_in_use(), 64 + 128);
}

TEST(ArenaTest, AGivenBackPlaceIsTakenAgainByTheFirstThatFits) {
    Arena arena(1 << 20);
    Arena::Block first = arena.take(128);
    const Arena::Block second = arena.take(64);
    std::byte* const place = first.data();
    first.release();
    const Arena::Block large = arena.take(256);
    const Arena::Block small = arena.take(64);
    EXPECT_EQ(small.data(), place);
    EXPECT_EQ(large.data(), place + 192);
    EXPECT_EQ(arena.high_water_bytes(), 192 + 256);
}

// The planner's promise: what a dry arena counts is what a real one needs.
TEST(ArenaTest, ADryArenaHasTheHighWaterOfARealOne) {
    const auto play = [](Arena& arena) {
        std::vector<std::optional<Arena::Block>> blocks;
        for (int64_t i = 0; i < 200; ++i) {
            blocks.emplace_back(arena.take((i * 7919) % 5000));
            if (i % 3 == 2) {
                blocks[static_cast<size_t>(i * 31 % (i + 1))].reset();
            }
        }
        return arena.high_water_bytes();
    };
    Arena dry = Arena::dry();
    const int64_t needed = play(dry);
    EXPECT_TRUE(dry.is_dry());
    EXPECT_EQ(dry.bytes_in_use(), 0);
    Arena real(needed);
    EXPECT_FALSE(real.is_dry());
    EXPECT_EQ(play(real), needed);
}

TEST(ArenaTest, MoreThanThePlanIsAnError) {
    Arena arena(2 << 20);
    const Arena::Block most = arena.take((2 << 20) - 64);
    try {
        const Arena::Block more = arena.take(65);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("128 more were asked for"));
        EXPECT_THAT(error.what(), testing::HasSubstr("fault of the planner"));
    }
    EXPECT_EQ(arena.take(64).data(), most.data() + (2 << 20) - 64);
}

TEST(ArenaTest, MoreThanTheMachineCanReserveIsAnError) {
    try {
        const Arena arena(int64_t{1} << 55);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("cannot reserve"));
        EXPECT_THAT(error.what(), testing::HasSubstr("smaller model"));
    }
}

TEST(ArenaTest, AMovedBlockIsGivenBackOnce) {
    Arena arena(1 << 20);
    Arena::Block block = arena.take(10);
    {
        Arena::Block moved(std::move(block));
        EXPECT_EQ(arena.bytes_in_use(), 64);
        block = arena.take(200);
        moved = std::move(block);
        EXPECT_EQ(arena.bytes_in_use(), 256);
        EXPECT_EQ(moved.bytes(), 200);
    }
    EXPECT_EQ(arena.bytes_in_use(), 0);
}

TEST(ArenaTest, TouchedMemoryIsWritable) {
    Arena arena(4 << 20);
    arena.touch();
    const Arena::Block block = arena.take(4 << 20);
    std::memset(block.data(), 1, 4 << 20);
    EXPECT_EQ(block.data()[(4 << 20) - 1], std::byte{1});
}

TEST(ArenaTest, TouchingByManyThreadsKeepsWhatIsThereAndCountsAll) {
    constexpr int64_t kBytes = 100 << 20;
    Arena arena(kBytes);
    const Arena::Block block = arena.take(kBytes);
    for (int64_t place = 0; place < kBytes; place += 1 << 20) {
        block.data()[place] = std::byte{7};
    }
    Pool pool(3);
    int64_t touched = 0;
    arena.touch({.pool = &pool, .told = [&](int64_t done, int64_t) { touched = done; }});
    EXPECT_EQ(touched, kBytes);
    for (int64_t place = 0; place < kBytes; place += 1 << 20) {
        ASSERT_EQ(block.data()[place], std::byte{7}) << place;
    }
}

// Anonymous memory that went back to the system reads as zero.
TEST(ArenaTest, WhatIsNotKeptGoesBackToTheSystem) {
    constexpr int64_t kHuge = 2 << 20;
    Arena arena(4 * kHuge);
    const Arena::Block stays = arena.take(kHuge);
    Arena::Block goes = arena.take(kHuge);
    std::byte* const place = goes.data();
    stays.data()[0] = place[0] = std::byte{7};
    goes.release();
    EXPECT_EQ(place[0], std::byte{7}) << "nobody asked for it";
    arena.keep(kHuge);
    EXPECT_EQ(place[0], std::byte{0});
    EXPECT_EQ(stays.data()[0], std::byte{7});
}

TEST(ArenaTest, ABlockBehindWhatIsKeptTakesNoMemoryMoreThanTheGapsGive) {
    constexpr int64_t kHuge = 2 << 20;
    Arena arena(6 * kHuge);
    arena.keep(3 * kHuge);
    Arena::Block first = arena.take(kHuge);
    const Arena::Block second = arena.take(kHuge);
    std::byte* const gap = first.data();
    gap[0] = second.data()[0] = std::byte{7};
    first.release();
    EXPECT_EQ(gap[0], std::byte{7});
    {
        const Arena::Block large = arena.take(2 * kHuge);  // the gap and the rest are too small, together large enough
        EXPECT_EQ(large.data(), second.data() + kHuge);
        EXPECT_EQ(gap[0], std::byte{0});
        Arena::Block again = arena.take(kHuge);
        EXPECT_EQ(again.data(), gap);
        gap[0] = large.data()[0] = std::byte{7};
        again.release();
        EXPECT_EQ(gap[0], std::byte{0});
    }
    EXPECT_EQ((second.data() + kHuge)[0], std::byte{0});
    EXPECT_EQ(second.data()[0], std::byte{7});
    Arena::Block usual = arena.take(kHuge);
    gap[0] = std::byte{7};
    usual.release();
    EXPECT_EQ(gap[0], std::byte{7}) << "all is as before";
}

TEST(ArenaTest, TheHighWaterMarkCanBeCountedAnew) {
    Arena arena = Arena::dry();
    const Arena::Block stays = arena.take(64);
    arena.take(640).release();
    EXPECT_EQ(arena.high_water_bytes(), 704);
    arena.restart_high_water();
    EXPECT_EQ(arena.high_water_bytes(), 64);
    arena.take(128).release();
    EXPECT_EQ(arena.high_water_bytes(), 192);
}

TEST(ArenaTest, AMatrixHasTheBytesOfItsType) {
    Arena arena(1 << 20);
    const Leased<Bf16> small = take_matrix<Bf16>(arena, 3, 5);
    EXPECT_EQ(small.block.bytes(), 30);
    EXPECT_EQ(small.view.stride, 5);
    const LeasedAny any = take_any_matrix(arena, DType::fp32, 3, 5);
    EXPECT_EQ(any.block.bytes(), 60);
    EXPECT_EQ(any.view.as<float>().data, reinterpret_cast<float*>(any.block.data()));
}

// As a device's memory: whoever peeks ends.
TEST(ArenaTest, GuardedMemoryCanBeTouchedOnlyWhileItIsOpen) {
    Arena arena(make_guarded_backing(1 << 20));
    arena.touch();
    const Leased<float> values = take_matrix<float>(arena, 2, 3);
    {
        const Arena::Access access(arena);
        const Arena::Access nested(arena);
        values.view.data[5] = 7;
        EXPECT_EQ(values.view.data[5], 7);
    }
    EXPECT_DEATH({ values.view.data[5] = 8; }, "");
    EXPECT_DEATH({ std::exit(values.view.data[5] == 7 ? 0 : 1); }, "");
    const Arena::Access again(arena);
    EXPECT_EQ(values.view.data[5], 7);
}

TEST(ArenaTest, APieceOnTheHostIsAnArenaByItselfThatOpensWithTheOther) {
    Arena arena(make_guarded_backing(1 << 20), make_guarded_backing(1 << 20));
    const Leased<float> here = take_matrix<float>(arena, 1, 16);
    const Leased<float> there = take_matrix<float>(arena.on_host(), 1, 32);
    EXPECT_EQ(arena.bytes_in_use(), 64);
    EXPECT_EQ(arena.on_host().bytes_in_use(), 128);
    EXPECT_TRUE(arena.is_on_host(there.view.data + 31));
    EXPECT_FALSE(arena.is_on_host(here.view.data));
    EXPECT_FALSE(arena.is_on_host(nullptr));
    {
        const Arena::Access access(arena);
        there.view.data[31] = 7;
        here.view.data[15] = there.view.data[31];
        EXPECT_EQ(here.view.data[15], 7);
    }
    EXPECT_DEATH({ there.view.data[31] = 8; }, "");
}

TEST(ArenaTest, APieceThatWasNotTakenIsAnError) {
    Arena arena(1 << 20);
    EXPECT_THROW((void)arena.on_host(), Error);
    EXPECT_FALSE(arena.is_on_host(arena.take(1).data()));
    Arena dry = Arena::dry();
    EXPECT_EQ(dry.on_host().take(100).bytes(), 100);
    EXPECT_EQ(dry.on_host().high_water_bytes(), 128);
    EXPECT_EQ(dry.high_water_bytes(), 0);
}

}  // namespace
}  // namespace accrue
