#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/data/documents/document_readers.h"
#include "accrue/data/documents/token_rows.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

void unpack(InputStream& stream, const fs::path& into) {
    OutputFile output(into);
    std::vector<char> buffer(size_t{1} << 20);
    for (size_t count = buffer.size(); count == buffer.size();) {
        count = stream.read(buffer);
        output.write(std::string_view(buffer.data(), count));
    }
}

// The header of a safetensors file leads to any place of it, so a compressed one must be unpacked first.
TokenRows open_compressed_rows(const fs::path& file) {
    const TemporaryFolder folder;  // may go when the file is open: what is open can still be read
    const fs::path unpacked = folder / "unpacked.safetensors";
    unpack(*open_stream(file), unpacked);
    try {
        return {unpacked, file.string()};
    } catch (const Error& error) {
        std::string message = error.what();
        const size_t place = message.find(unpacked.string());
        if (place != std::string::npos) {
            message.replace(place, unpacked.string().size(), file.string());
        }
        throw Error(message);
    }
}

// A document per row of token ids.
class RowReader final : public DocumentReader {
public:
    explicit RowReader(TokenRows rows) : rows_(std::move(rows)) {}

    bool next(Document& document) override {
        while (next_ < rows_.size()) {
            document = document_of(rows_.row(next_), next_);
            ++next_;
            if (!document.parts.empty()) {
                return true;
            }
            ++skipped_;
        }
        if (skipped_ == rows_.size()) {
            throw Error(cat(rows_.name(), " has no counted token: every label is -100"));
        }
        return false;
    }

    // Rows that count nothing.
    [[nodiscard]] int64_t skipped() const override { return skipped_; }

private:
    [[nodiscard]] Document document_of(const TokenRows::Row& row, int64_t index) const {
        Document document;
        const auto last =
            std::find_if(row.labels.rbegin(), row.labels.rend(), [](int32_t label) { return label >= 0; });
        const auto length = static_cast<size_t>(row.labels.rend() - last);
        for (size_t place = 0; place < length; ++place) {
            const bool counted = row.labels[place] >= 0;
            check_label(row, index, place);
            if (document.parts.empty() || document.parts.back().counted != counted) {
                document.parts.push_back({.text = {}, .ids = {}, .counted = counted});
            }
            document.parts.back().ids.push_back(row.ids[place]);
        }
        return document;
    }

    // Nothing stands before the first token that could be asked to say it, so its label may be anything.
    void check_label(const TokenRows::Row& row, int64_t index, size_t place) const {
        if (place > 0 && row.labels[place] >= 0 && row.labels[place] != row.ids[place]) {
            throw Error(cat(rows_.name(), ": labels of sample ", index, ", place ", place, " is ", row.labels[place],
                            ", but input_ids has ", row.ids[place],
                            " there. A label must be the same token, or -100, which is not counted."));
        }
    }

    TokenRows rows_;
    int64_t next_ = 0;
    int64_t skipped_ = 0;
};

}  // namespace

std::unique_ptr<DocumentReader> read_row_documents(const fs::path& file) {
    const bool compressed = without_compression(file) != file;
    return std::make_unique<RowReader>(compressed ? open_compressed_rows(file) : TokenRows(file, file.string()));
}

}  // namespace accrue
