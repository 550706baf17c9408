#include "tests/soaking/disturbance.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

const std::map<Kind, std::string>& names() {
    static const std::map<Kind, std::string> all = {{Kind::none, "none"},
                                                    {Kind::kill, "kill"},
                                                    {Kind::power_cut, "power-cut"},
                                                    {Kind::stop, "stop"},
                                                    {Kind::hangup, "hangup"},
                                                    {Kind::freeze, "freeze"},
                                                    {Kind::fault, "fault"},
                                                    {Kind::full_disk, "full-disk"},
                                                    {Kind::small_disk, "small-disk"},
                                                    {Kind::size_limit, "size-limit"},
                                                    {Kind::second, "second"}};
    return all;
}

// Starts and ends have most of the interesting moments, so all parts of a run are hit alike often, and the start more.
int64_t draw_call(Dice& dice, int64_t changes) {
    return dice.between(1, std::max<int64_t>(1, dice.one_in(3) ? changes / 4 : changes));
}

}  // namespace

std::string name_of(Kind kind) {
    return names().at(kind);
}

const std::vector<Kind>& all_kinds() {
    static const std::vector<Kind> all = {Kind::kill,       Kind::power_cut, Kind::stop,      Kind::hangup,
                                          Kind::freeze,     Kind::fault,     Kind::full_disk, Kind::small_disk,
                                          Kind::size_limit, Kind::second};
    return all;
}

Kind kind_named(const std::string& name) {
    std::string known;
    for (const Kind kind : all_kinds()) {
        if (name_of(kind) == name) {
            return kind;
        }
        known += (known.empty() ? "" : ", ") + name_of(kind);
    }
    throw Error(cat("--kinds: there is no disturbance named ", name, ". There are: ", known, "."));
}

bool is_signal(Kind kind) {
    return kind == Kind::kill || kind == Kind::stop || kind == Kind::hangup;
}

Disturbance draw_disturbance(Dice& dice, const std::vector<Kind>& kinds, const JobSize& size) {
    Disturbance drawn;
    drawn.kind = dice.one_of(kinds);
    drawn.call = draw_call(dice, size.changes);
    if (drawn.kind == Kind::kill && dice.one_in(4)) {
        drawn.every_call_counts = true;
        drawn.call = dice.between(1, int64_t{1} << dice.between(3, 12));
    }
    drawn.signal = drawn.kind == Kind::hangup ? SIGHUP : dice.one_of<int>({SIGTERM, SIGINT});
    drawn.pick = static_cast<uint64_t>(dice.between(0, 1'000'000'000));
    drawn.room_bytes =
        drawn.kind == Kind::small_disk ? dice.between(0, size.bytes) : dice.between(1, size.largest_file);
    drawn.moment = static_cast<double>(dice.between(0, 1000)) / 1000;
    return drawn;
}

std::string text_of(const Disturbance& disturbance) {
    const std::string at =
        cat(" before ", disturbance.every_call_counts ? "system call " : "change of a file no. ", disturbance.call);
    switch (disturbance.kind) {
        case Kind::none:
            return "undisturbed";
        case Kind::stop:
        case Kind::hangup:
            return cat("SIG", sigabbrev_np(disturbance.signal), at);
        case Kind::small_disk:
            return cat("small-disk with ", disturbance.room_bytes, " bytes left");
        case Kind::size_limit:
            return cat("size-limit: no file may have more than ", disturbance.room_bytes, " bytes");
        default:
            return name_of(disturbance.kind) + at;
    }
}

}  // namespace accrue::soaking
