#include <set>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/dist/gpu_exchange.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// Whose NCCL has failed so often, one after another, goes through the hosts from then on, and everybody with it.
constexpr int64_t kMostFaults = 2;

// Why these members cannot use their GPUs; "" = they can. All come to the same.
std::string why_not_together(const std::vector<Json>& members) {
    std::set<std::string> gpus;
    std::set<std::string> versions;
    bool may_be_shared = true;
    for (const Json& member : members) {
        std::string why = member.at("why_not");
        if (!why.empty()) {
            return why;
        }
        gpus.insert(member.at("gpu").get<std::string>());
        versions.insert(member.at("version").get<std::string>());
        may_be_shared = may_be_shared && member.at("may_be_shared");
    }
    if (gpus.size() < members.size() && !may_be_shared) {
        return "workers share a GPU";
    }
    return versions.size() > 1 ? "workers have different versions of NCCL" : "";
}

}  // namespace

std::string GpuMeeting::why_not() const {
    if (!mine_) {
        return "not all workers have NCCL and a GPU of their own";
    }
    return *mine_->faults >= kMostFaults ? "a worker's NCCL failed again and again" : why_no_nccl();
}

std::string GpuMeeting::meet(Mesh& mesh, int64_t rank, int64_t size) {
    if (size == 1) {
        return "";
    }
    const auto through_hosts = [](const std::string& why) { return cat("sums pass through the host (", why, ")"); };
    const std::string why = why_not();
    const Json mine = {{"why_not", why},
                       {"gpu", why.empty() ? name_of_gpu(mine_->number) : ""},
                       {"version", why.empty() ? nccl_version() : ""},
                       {"may_be_shared", why.empty() && mine_->may_be_shared}};
    std::vector<Json> members;
    for (const std::string& told : mesh.tell_all(mine.dump())) {
        members.push_back(Json::parse(told));
    }
    if (const std::string all = why_not_together(members); !all.empty()) {
        return through_hosts(all);
    }
    std::unique_ptr<GpuExchange> gpus;
    std::string fault;
    std::string meeting;
    try {
        meeting = rank == 0 ? new_nccl_meeting() : "";
    } catch (const Error& error) {
        fault = error.what();
    }
    meeting = mesh.tell(0, meeting);
    try {
        if (!meeting.empty()) {
            gpus = connect_gpus(*mine_, meeting, rank, size, [&mesh] { mesh.require_all(); });
        }
    } catch (const RosterChanged&) {
        throw;
    } catch (const Error& error) {
        fault = error.what();
    }
    *mine_->faults += gpus ? 0 : 1;
    for (const std::string& told : mesh.tell_all(gpus ? "" : cat("NCCL did not connect: ", fault))) {
        if (!told.empty()) {
            return through_hosts(told);
        }
    }
    mesh.add_up_by(std::move(gpus));
    return cat("sums go from GPU to GPU by NCCL ", members.front().at("version").get<std::string>());
}

}  // namespace accrue
