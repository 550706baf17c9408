#include "accrue/train/settings_words.h"

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "accrue/base/test_places.h"

namespace accrue {
namespace {

// Whether a number is one of an enum's values: of others compilers write "(Enum)7".
template <auto value>
constexpr bool is_value() {
    const std::string_view name = __PRETTY_FUNCTION__;
    return name.find("value = (") == std::string_view::npos;
}

template <class Value, size_t... numbers>
std::set<Value> values_of(std::index_sequence<numbers...>) {
    std::set<Value> values;
    (void)std::initializer_list<int>{
        (is_value<static_cast<Value>(numbers)>() ? values.insert(Value(numbers)), 0 : 0)...};
    return values;
}

template <class Value>
class WordsTest : public testing::Test {};
using EnumsWithWords = testing::Types<ChatFormat, Choices::WeightCopy, DeviceKind, DType, HostState, InitialWeights,
                                      Layout, MomentFormat, OptimizerKind, RateRule, Recompute, SampleOrder::Kind,
                                      Schedule::Kind, SumKind, WindowSize::Last, WorkersState>;
TYPED_TEST_SUITE(WordsTest, EnumsWithWords);

TYPED_TEST(WordsTest, EveryValueHasOneWordAndEveryWordOneValue) {
    const auto all = values_of<TypeParam>(std::make_index_sequence<16>());
    EXPECT_EQ(words_for(TypeParam()).size(), all.size());
    for (const TypeParam value : all) {
        EXPECT_FALSE(word_of(value).empty());
        EXPECT_EQ(value_of_word<TypeParam>(word_of(value)), value) << word_of(value);
    }
    EXPECT_FALSE(value_of_word<TypeParam>("").has_value());
    EXPECT_FALSE(value_of_word<TypeParam>(kAuto).has_value()) << "that is a setting which is left open";
}

TEST(SettingsPageTest, IsTheHelp) {
    std::ifstream page(source_folder() / "docs/settings.md");
    const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("```text\n" + describe_settings() + "```\n"), std::string::npos);
}

}  // namespace
}  // namespace accrue
