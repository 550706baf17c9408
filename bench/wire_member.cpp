// One member of a roster that exchanges sums over a network, for bench/wire: as often as it is told, and prints what it took, as JSON.
// Members meet in a folder that all of them see.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/main.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/dist/gloo_mesh.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Keys are files.
class FolderStore final : public KeyStore {
public:
    explicit FolderStore(fs::path folder) : folder_(std::move(folder)) {}

    void set(const std::string& key, const std::string& value) override { write_text(file_of(key), value); }
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override {
        const auto until = Clock::now() + limit;
        while (!fs::exists(file_of(key))) {
            if (Clock::now() > until) {
                throw RosterChanged("nobody has set " + key);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return read_text(file_of(key));
    }

private:
    [[nodiscard]] fs::path file_of(std::string key) const {
        std::replace(key.begin(), key.end(), '/', '_');
        return folder_ / key;
    }

    fs::path folder_;
};

struct Member {
    std::string address;
    fs::path folder;
    int64_t rank = 0;
    int64_t size = 2;
    int64_t elements = 1'000'000;
    int64_t exchanges = 3;
    int64_t copies = 0;  // of each range that members share; 0 = everybody has everything
    int64_t weight_bytes = 2;
};

// Of the interface that has this name, in this process's network.
int64_t interface_bytes(const std::string& name) {
    std::ifstream table("/proc/thread-self/net/dev");
    for (std::string line; std::getline(table, line);) {
        const size_t colon = line.find(':');
        if (colon != std::string::npos && line.substr(line.find_first_not_of(' '), colon).find(name) == 0) {
            std::istringstream numbers(line.substr(colon + 1));
            int64_t value = 0;
            for (int column = 0; column < 9; ++column) {
                numbers >> value;  // the ninth is what was sent
            }
            return value;
        }
    }
    throw Error("there is no interface " + name);
}

int64_t value_of(int64_t rank, int64_t element) {
    return static_cast<int64_t>(mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(element)));
}

// What a member holds afterwards, of elements from `first` on, is the plain sum.
void require_sum(const Member& member, std::span<const int64_t> values, int64_t first = 0) {
    for (size_t place = 0; place < values.size(); place += 997) {
        const int64_t element = first + static_cast<int64_t>(place);
        uint64_t sum = 0;
        for (int64_t rank = 0; rank < member.size; ++rank) {
            sum += static_cast<uint64_t>(value_of(rank, element));
        }
        if (static_cast<uint64_t>(values[place]) != sum) {
            throw Error(cat("element ", element, " is wrong"));
        }
    }
}

std::byte weight_byte(int64_t place) {
    return static_cast<std::byte>(mix(static_cast<uint64_t>(place)) & 0xff);
}

// Members that share the state: sums to the keepers of ranges, then everybody's weights of each from its owner.
class SharedExchange {
public:
    SharedExchange(const Member& member, Mesh& mesh) : member_(member), mesh_(mesh) {
        const std::vector<FlatTensor> one = {{.offset = 0, .elements = member.elements}};
        shared_.ranges = cut_into_ranges(one, member.elements, member.size);
        shared_.keepers =
            first_keepers({.ranges = member.size, .copies = std::min(member.copies, member.size)}, member.size).value();
        totals_.resize(shared_.ranges.size());
        shared_.totals.resize(shared_.ranges.size());
        for (const int64_t range : ranges_kept_by(shared_.keepers, member.rank)) {
            const auto number = static_cast<size_t>(range);
            totals_[number].resize(static_cast<size_t>(shared_.ranges[number].count));
            shared_.totals[number] = totals_[number];
        }
        for (size_t range = 0; range < shared_.ranges.size(); ++range) {
            sources_.push_back({.from_rank = shared_.keepers[range].front(),
                                .bytes = shared_.ranges[range].count * member.weight_bytes});
        }
        weights_.resize(static_cast<size_t>(member.elements * member.weight_bytes));
        for (size_t range = 0; range < shared_.ranges.size(); ++range) {
            if (sources_[range].from_rank == member.rank) {
                for (int64_t place = 0; place < sources_[range].bytes; ++place) {
                    weights_[place_of(range, place)] = weight_byte(static_cast<int64_t>(place_of(range, place)));
                }
            }
        }
    }

    void run(const IntegerSums& sums, uint64_t seed) {
        (void)mesh_.reduce(sums, shared_, seed);
        mesh_.gather(
            sources_,
            [&](size_t range, int64_t first, std::span<std::byte> into) {
                std::copy_n(weights_.data() + place_of(range, first), into.size(), into.begin());
            },
            [&](size_t range, int64_t first, std::span<const std::byte> from) {
                std::copy(from.begin(), from.end(), weights_.data() + place_of(range, first));
            });
    }
    void require_all() const {
        for (size_t range = 0; range < totals_.size(); ++range) {
            require_sum(member_, totals_[range], shared_.ranges[range].first);
        }
        for (size_t place = 0; place < weights_.size(); place += 997) {
            if (weights_[place] != weight_byte(static_cast<int64_t>(place))) {
                throw Error(cat("byte ", place, " of the weights is wrong"));
            }
        }
    }

private:
    [[nodiscard]] size_t place_of(size_t range, int64_t byte) const {
        return static_cast<size_t>(shared_.ranges[range].first * member_.weight_bytes + byte);
    }

    const Member& member_;
    Mesh& mesh_;
    SharedRanges shared_;
    std::vector<std::vector<int64_t>> totals_;
    std::vector<GatherSource> sources_;
    std::vector<std::byte> weights_;
};

int exchange_sums(const Member& member, const std::string& interface) {
    const MeshDevice device(member.address);
    FolderStore store(member.folder);
    const auto mesh = connect_mesh(
        device, store,
        {.term = 1, .roster = 1, .rank = member.rank, .size = member.size, .connect_limit = std::chrono::seconds(30)});
    std::vector<int64_t> mine(static_cast<size_t>(member.elements));
    for (int64_t element = 0; element < member.elements; ++element) {
        mine[static_cast<size_t>(element)] = value_of(member.rank, element);
    }
    std::vector<int64_t> values;
    const IntegerSums sums{.elements = member.elements,
                           .read =
                               [&](int64_t first, std::span<int64_t> into) {
                                   std::copy_n(values.begin() + first, into.size(), into.begin());
                               },
                           .write =
                               [&](int64_t first, std::span<const int64_t> from) {
                                   std::copy(from.begin(), from.end(), values.begin() + first);
                               }};
    std::optional<SharedExchange> shared;
    if (member.copies > 0) {
        shared.emplace(member, *mesh);
    }
    nlohmann::ordered_json result = {{"seconds", nlohmann::json::array()}};
    const int64_t before = interface_bytes(interface);
    for (int64_t number = 0; number < member.exchanges; ++number) {
        values = mine;
        const auto start = Clock::now();
        if (shared) {
            shared->run(sums, static_cast<uint64_t>(number));
        } else {
            (void)mesh->add_up(sums, static_cast<uint64_t>(number), [](const ExchangeChecks&) { return true; });
        }
        result["seconds"].push_back(seconds_since(start));
        if (shared) {
            shared->require_all();
        } else {
            require_sum(member, values);
        }
    }
    result["interface_bytes"] = interface_bytes(interface) - before;
    result["sent_bytes"] = mesh->sent_bytes();
    std::printf("%s\n", result.dump().c_str());
    return 0;
}

int run(int argc, char** argv) {
    Member member;
    std::string interface;
    CLI::App app("One member of a roster that exchanges sums");
    app.add_option("--address", member.address)->required();
    app.add_option("--interface", interface)->required();
    app.add_option("--folder", member.folder)->required();
    app.add_option("--rank", member.rank)->required();
    app.add_option("--size", member.size)->required();
    app.add_option("--elements", member.elements)->capture_default_str();
    app.add_option("--exchanges", member.exchanges)->capture_default_str();
    app.add_option("--copies", member.copies, "of each range that members share; 0 = everybody has everything");
    app.add_option("--weight-bytes", member.weight_bytes, "of a weight, where members share the state")
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    return exchange_sums(member, interface);
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    return accrue::run_or_say_error("wire_member", [&] { return accrue::run(argc, argv); });
}
