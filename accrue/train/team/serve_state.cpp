#include "accrue/train/team/serve_state.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/train/run_facts.h"
#include "accrue/train/team/packet.h"
#include "accrue/train/team/state_parts.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

std::span<std::byte> bytes_at(std::span<const std::span<std::byte>> parts, int64_t part, int64_t offset,
                              int64_t bytes) {
    if (part < 0 || part >= std::ssize(parts) || offset < 0 || bytes < 0 ||
        offset > std::ssize(parts[static_cast<size_t>(part)]) - bytes) {
        throw Error(cat("part ", part, " of a run's state has no ", bytes, " bytes at ", offset,
                        ": the run's leader has another model or other settings."));
    }
    return parts[static_cast<size_t>(part)].subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

void write_pieces(Engine& engine, const Packet& command) {
    const auto parts = state_parts(engine);
    const auto all = std::as_bytes(std::span(command.bytes));
    size_t used = 0;
    for (const Json& piece : command.words.at("pieces")) {
        const auto to = bytes_at(parts, piece.at(0), piece.at(1), piece.at(2));
        if (to.size() > all.size() - used) {
            throw Error("a piece of a run's state came without its bytes.");
        }
        upload(engine.kernels, all.subspan(used, to.size()), to.data());
        used += to.size();
    }
}

std::string read_piece(Engine& engine, const Json& words) {
    const auto from = bytes_at(state_parts(engine), words.at("part"), words.at("offset"), words.at("bytes"));
    std::string bytes(from.size(), '\0');
    download(engine.kernels, static_cast<const std::byte*>(from.data()), std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

// A run's moments begin with zeros; these may be those of a later step, or half of another worker's.
void forget_moments(Engine& engine) {
    const auto parts = state_parts(engine);
    for (size_t part = 1; part < parts_between_windows(parts); ++part) {
        engine.kernels.run(op::FillZero{parts[part]});
    }
}

std::string text_of_bytes(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The sums of the open window were written before.
void take_facts(Engine& engine, const Packet& command) {
    const Json& facts = command.words.at("facts");
    restore_facts(engine, facts, "the run's leader");
    if (!facts.at("window").is_null()) {
        WindowRecord record = window_record_of(facts.at("window").dump());
        engine.sum.restore(GrainLedger::from_bytes(std::as_bytes(std::span(command.bytes)), record.window.grains(),
                                                   std::ssize(engine.sum.tensors())),
                           record.units, record.rounding_seed, record.loss_scale);
        engine.state.open = std::move(record);
    }
    engine.refresh_copy();
}

}  // namespace

Packet obey_leader(Engine& engine, const Packet& command) {
    const std::string what = command.words.at("do");
    Packet answer;
    if (what == "write") {
        write_pieces(engine, command);
    } else if (what == "read") {
        answer.bytes = read_piece(engine, command.words);
    } else if (what == "begin") {
        forget_moments(engine);
    } else if (what == "take_facts") {
        take_facts(engine, command);
    } else if (what == "tell_facts") {
        answer.words["facts"] = facts_json(engine);
        answer.bytes = engine.finished_grains() > 0 ? text_of_bytes(engine.sum.ledger().to_bytes()) : std::string();
    } else if (what != "end") {
        throw Error(cat("the run's leader asks for \"", what, "\", which this program does not know."));
    }
    answer.words["done"] = command.words.at("number");
    return answer;
}

Served serve_state(Link& link, Engine& engine) {
    Served served = Served::read;
    Packet answer;
    while (true) {
        const Packet command = decoded(link.ask("state", encoded(answer)));
        const std::string what = command.words.at("do");
        if (what == "idle") {
            answer = {};
            continue;
        }
        answer = obey_leader(engine, command);
        served = what == "take_facts" ? Served::filled : served;
        if (what == "end") {
            (void)link.ask("state", encoded(answer));
            return served;
        }
    }
}

std::string standing_of(const Engine& engine) {
    Json standing = facts_json(engine);
    standing["window"] = engine.state.open ? Json::parse(to_json(*engine.state.open)) : Json();
    return standing.dump();
}

void stand_there_too(Engine& engine, const std::string& standing) {
    const Json facts = Json::parse(standing);
    restore_facts(engine, facts, "another worker");
    if (!facts.at("window").is_null()) {
        engine.open(window_record_of(facts.at("window").dump()));
    }
    engine.refresh_copy();
}

}  // namespace accrue
