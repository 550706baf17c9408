#include <algorithm>
#include <span>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/documents/token_rows.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {
namespace {

// Samples given row by row, all in memory, trimmed after their last counted target.
class RowDataset final : public Dataset {
public:
    // Labels are shifted here: what the model should say at a place is the label of the next one.
    void add_row(std::span<const int32_t> ids, std::span<const int32_t> labels) {
        int64_t length = 0;
        int64_t weight = 0;
        for (size_t place = 0; place + 1 < ids.size(); ++place) {
            if (labels[place + 1] >= 0) {
                length = static_cast<int64_t>(place) + 1;
                ++weight;
            }
        }
        tokens_.insert(tokens_.end(), ids.begin(), ids.begin() + length);
        if (length > 0) {
            targets_.insert(targets_.end(), labels.begin() + 1, labels.begin() + 1 + length);
        }
        ends_.push_back(static_cast<int64_t>(tokens_.size()));
        weights_.push_back(weight);
        uncounted_ += weight == 0 ? 1 : 0;
        longest_ = std::max(longest_, length);
    }

    // The rows added from now on come from that file.
    void begin_file(const std::string& name) { files_.push_back({name, size()}); }

    [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(ends_.size()); }

    [[nodiscard]] Sample sample(int64_t index) const override {
        const int64_t begin = index == 0 ? 0 : ends_[static_cast<size_t>(index - 1)];
        const int64_t end = ends_[static_cast<size_t>(index)];
        return {{tokens_.begin() + begin, tokens_.begin() + end}, {targets_.begin() + begin, targets_.begin() + end}};
    }

    [[nodiscard]] int64_t weight(int64_t index) const override { return weights_[static_cast<size_t>(index)]; }
    [[nodiscard]] int64_t longest() const override { return longest_; }

    // Only what is kept can reach a model: padding behind the last target may be anything.
    [[nodiscard]] LargestToken largest_token() const override {
        const auto token = std::max_element(tokens_.begin(), tokens_.end());
        const auto target = std::max_element(targets_.begin(), targets_.end());
        if (*token >= *target) {
            return {*token, where(token - tokens_.begin(), 0)};
        }
        return {*target, where(target - targets_.begin(), 1)};
    }

    [[nodiscard]] LeftOut left_out() const override { return {.uncounted_samples = uncounted_}; }
    [[nodiscard]] std::string fingerprint() const override { return fingerprint_of(*this); }

private:
    struct File {
        std::string name;
        int64_t first_sample;
    };

    // A place in the flat memory as a place in a file; a target stands `shift` places behind its input there.
    [[nodiscard]] std::string where(int64_t flat, int64_t shift) const {
        const auto end = std::upper_bound(ends_.begin(), ends_.end(), flat);
        const int64_t sample = end - ends_.begin();
        const int64_t begin = sample == 0 ? 0 : *(end - 1);
        const auto file = std::find_if(files_.rbegin(), files_.rend(),
                                       [&](const File& candidate) { return candidate.first_sample <= sample; });
        return cat(file->name, ", sample ", sample - file->first_sample, ", place ", flat - begin + shift);
    }

    std::vector<File> files_;
    std::vector<int32_t> tokens_;
    std::vector<int32_t> targets_;
    std::vector<int64_t> ends_;
    std::vector<int64_t> weights_;
    int64_t longest_ = 0;
    int64_t uncounted_ = 0;
};

void add_file(RowDataset& dataset, const std::filesystem::path& path) {
    const TokenRows rows(path, path.string());
    dataset.begin_file(path.string());
    for (int64_t index = 0; index < rows.size(); ++index) {
        const TokenRows::Row row = rows.row(index);
        dataset.add_row(row.ids, row.labels);
    }
}

}  // namespace

std::unique_ptr<Dataset> open_token_rows(const std::vector<std::filesystem::path>& files) {
    auto dataset = std::make_unique<RowDataset>();
    for (const std::filesystem::path& file : files) {
        add_file(*dataset, file);
    }
    if (dataset->longest() == 0) {
        throw Error(cat(files.front().string(), files.size() > 1 ? " and the files after it have" : " has",
                        " no counted target: every label is -100, or every row has a single token"));
    }
    return dataset;
}

}  // namespace accrue
