#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/data/documents/document.h"

namespace accrue {

// What the tests of readers share: a folder of their own, files in it and what reading them gives.
class ReaderTest : public testing::Test {
protected:
    [[nodiscard]] std::filesystem::path write(const std::string& name, std::string_view bytes) const {
        std::filesystem::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name, std::ios::binary) << bytes;
        return folder_ / name;
    }

    [[nodiscard]] static std::vector<Document> read_all(const std::filesystem::path& file,
                                                        const ReaderOptions& options = {}) {
        const auto reader = open_documents(file, options);
        std::vector<Document> documents;
        for (Document document; reader->next(document);) {
            documents.push_back(document);
        }
        return documents;
    }

    [[nodiscard]] static std::string error_of(const std::function<void()>& action) {
        try {
            action();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
    [[nodiscard]] static std::string error_of(const std::filesystem::path& file, const ReaderOptions& options = {}) {
        return error_of([&] { (void)read_all(file, options); });
    }

    [[nodiscard]] static std::string gzipped(std::string_view bytes) {
        z_stream state{};
        EXPECT_EQ(deflateInit2(&state, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        std::string packed(deflateBound(&state, bytes.size()), '\0');
        state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        state.avail_in = static_cast<uInt>(bytes.size());
        state.next_out = reinterpret_cast<Bytef*>(packed.data());
        state.avail_out = static_cast<uInt>(packed.size());
        EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
        packed.resize(state.total_out);
        deflateEnd(&state);
        return packed;
    }

    // With a checksum, as the zstd program writes it.
    [[nodiscard]] static std::string zstandard(std::string_view bytes) {
        ZSTD_CCtx* const state = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(state, ZSTD_c_checksumFlag, 1);
        std::string packed(ZSTD_compressBound(bytes.size()), '\0');
        packed.resize(ZSTD_compress2(state, packed.data(), packed.size(), bytes.data(), bytes.size()));
        ZSTD_freeCCtx(state);
        return packed;
    }

    TemporaryFolder folder_;
};

}  // namespace accrue
