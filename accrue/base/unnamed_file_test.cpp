#include "accrue/base/unnamed_file.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace accrue {
namespace {

namespace fs = std::filesystem;

TEST(UnnamedFileTest, ItIsReadAndWrittenByItsPathAndGoneWithIt) {
    fs::path path;
    {
        UnnamedFile first;
        UnnamedFile file(std::move(first));
        path = file.path();
        std::ofstream(path) << "words";
        std::ifstream stream(path);
        EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "words");
    }
    EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace accrue
