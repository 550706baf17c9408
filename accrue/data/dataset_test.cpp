#include "accrue/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class DatasetTest : public testing::Test {
protected:
    DatasetTest() { fs::create_directories(folder_); }
    ~DatasetTest() override { fs::remove_all(folder_); }

    static std::string error_of(const std::vector<fs::path>& files) {
        try {
            (void)open_dataset(files, 4);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    fs::path folder_ = fs::path(testing::TempDir()) /
                       (std::string("accrue_dataset_test_") +
                        testing::UnitTest::GetInstance()->current_test_info()->name() + "_" + std::to_string(getpid()));
};

TEST_F(DatasetTest, AMissingFileIsNamed) {
    EXPECT_THAT(error_of({folder_ / "missing.txt"}),
                HasSubstr("there is no file " + (folder_ / "missing.txt").string()));
    EXPECT_THAT(error_of({folder_ / "missing.other"}), HasSubstr("there is no file"));
}

TEST_F(DatasetTest, AnUnknownEndingListsTheKnownOnes) {
    write_text(folder_ / "a.pdf", "text");
    EXPECT_THAT(error_of({folder_ / "a.pdf"}), AllOf(HasSubstr("a.pdf ends in .pdf"), HasSubstr(".txt, .safetensors")));
    EXPECT_THAT(error_of({folder_}), HasSubstr("no ending"));
}

TEST_F(DatasetTest, AFolderIsNoFile) {
    fs::create_directories(folder_ / "folder.txt");
    EXPECT_THAT(error_of({folder_ / "folder.txt"}), AllOf(HasSubstr("folder.txt"), HasSubstr("directory")));
}

TEST_F(DatasetTest, TextAndTokensCannotBeMixed) {
    write_text(folder_ / "a.txt", "text");
    const std::vector<int64_t> ids = {1, 2};
    write_safetensors(folder_ / "b.safetensors", {{"input_ids", "I64", {1, 2}, std::as_bytes(std::span(ids))}});
    EXPECT_THAT(error_of({folder_ / "a.txt", folder_ / "b.safetensors"}),
                AllOf(HasSubstr("cannot be mixed"), HasSubstr("a.txt"), HasSubstr("b.safetensors")));
}

TEST_F(DatasetTest, NoFileAtAllIsAnError) {
    EXPECT_THAT(error_of({}), HasSubstr("at least one file"));
}

}  // namespace
}  // namespace accrue
