#include "accrue/base/error.h"
#include "accrue/train/team/serve_state.h"
#include "accrue/train/team/state_parts.h"

namespace accrue {
namespace {

// What rank 0 says, to everybody; also that there is nothing to do, so that nobody takes it for gone.
Packet relayed(Mesh& mesh, int64_t rank, Packet packet) {
    if (rank == 0) {
        packet.words["relayed_bytes"] = packet.bytes.size();
    }
    const std::string words = rank == 0 ? encoded({.words = packet.words}) : std::string();
    packet.words = decoded(mesh.tell(0, words)).words;
    packet.bytes.resize(packet.words.at("relayed_bytes").get<size_t>());
    if (!packet.bytes.empty()) {
        const std::span<std::byte> all = std::as_writable_bytes(std::span(packet.bytes));
        mesh.broadcast(
            0, std::ssize(all),
            [&](int64_t first, std::span<std::byte> into) {
                std::ranges::copy(all.subspan(static_cast<size_t>(first), into.size()), into.begin());
            },
            [&](int64_t first, std::span<const std::byte> from) { std::ranges::copy(from, all.begin() + first); });
    }
    return packet;
}

void write_pieces(SharedState& shared, const Packet& command) {
    auto rest = std::as_bytes(std::span(command.bytes));
    for (const auto& piece : command.words.at("pieces")) {
        const auto size = piece.at(2).get<size_t>();
        if (size > rest.size()) {
            throw Error("a piece of a run's state came without its bytes.");
        }
        shared.write(rest.first(size), piece.at(0), piece.at(1));
        rest = rest.subspan(size);
    }
}

// The sums are the last part for the leader, which counts each tensor's moments as one, and for this worker, which has other ones.
Packet in_own_numbers(Engine& engine, Packet command) {
    if (command.words.at("do") == "read" && command.words.at("part") != 0) {
        command.words["part"] = std::ssize(state_parts(engine)) - 1;
    }
    return command;
}

}  // namespace

Served serve_shared_state(Link& link, Mesh& mesh, int64_t rank, Engine& engine, SharedState& shared, bool& has_state) {
    Served served = Served::read;
    Packet answer;
    while (true) {
        const Packet asked = rank == 0 ? decoded(link.ask("state", encoded(answer))) : Packet();
        answer = {};
        const Packet command = relayed(mesh, rank, asked);
        const std::string what = command.words.at("do");
        if (what == "idle") {
            continue;
        }
        if (what == "begin") {
            has_state = false;
            if (!shared.begin(rank, std::ssize(mesh.tell_all({})))) {
                throw RosterChanged("too few workers are left to hold the run's state");
            }
        } else if (what == "write") {
            has_state = false;
            write_pieces(shared, command);
        } else if (what == "read" && shared.is_shared_part(command.words.at("part"))) {
            answer.bytes =
                shared.read(mesh, command.words.at("part"), command.words.at("offset"), command.words.at("bytes"));
        } else if (rank == 0) {
            answer = obey_leader(engine, in_own_numbers(engine, command));
        }
        answer.words["done"] = command.words.at("number");
        served = what == "take_facts" ? Served::filled : served;
        if (what == "end") {
            if (rank == 0) {
                (void)link.ask("state", encoded(answer));
            }
            return served;
        }
    }
}

}  // namespace accrue
