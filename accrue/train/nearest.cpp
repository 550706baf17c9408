#include "accrue/train/nearest.h"

#include <algorithm>

namespace accrue {
namespace {

std::string_view name_of(std::string_view key) {
    return key.substr(key.rfind('.') + 1);
}

std::string_view section_of(std::string_view key) {
    return key.substr(0, key.rfind('.') + 1);
}

// optimizer.learning_rate for optimizer.rate: the same section, and a word too many in front.
bool is_longer_name_for(std::string_view unknown, std::string_view key) {
    const std::string_view name = name_of(key);
    const std::string_view given = name_of(unknown);
    return section_of(unknown) == section_of(key) && given.ends_with(name) && given.size() > name.size() + 1 &&
           given[given.size() - name.size() - 1] == '_';
}

}  // namespace

int edit_distance(std::string_view from, std::string_view to) {
    // cost[i][j]: from the first i letters to the first j.
    std::vector<std::vector<int>> cost(from.size() + 1, std::vector<int>(to.size() + 1));
    for (size_t i = 0; i <= from.size(); ++i) {
        for (size_t j = 0; j <= to.size(); ++j) {
            if (i == 0 || j == 0) {
                cost[i][j] = static_cast<int>(i + j);
                continue;
            }
            const int change = from[i - 1] == to[j - 1] ? 0 : 1;
            cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
            }
        }
    }
    return cost.back().back();
}

std::string nearest_text(const std::string& unknown, const std::vector<std::string>& known) {
    std::string nearest;
    // More than every third letter wrong is no slip.
    int least = 1 + std::max(1, static_cast<int>(name_of(unknown).size()) / 3);
    for (const std::string& key : known) {
        // One for the wrong section: a slip in the right one is likelier. A key cut short counts as one slip.
        int distance = std::min(edit_distance(unknown, key), edit_distance(name_of(unknown), name_of(key)) + 1);
        if (key.starts_with(unknown) || is_longer_name_for(unknown, key)) {
            distance = std::min(distance, 1);
        }
        if (distance < least) {
            least = distance;
            nearest = key;
        }
    }
    return nearest;
}

}  // namespace accrue
