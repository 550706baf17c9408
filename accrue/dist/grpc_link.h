#pragma once

#include <memory>
#include <string>

#include "accrue/dist/grpc_options.h"
#include "accrue/dist/link.h"

namespace accrue {

// A link to a coordinator that listens somewhere (GrpcServer). A call whose answer is lost is made again, with the same words; when
// nothing at all was heard for as long as the worker is patient, it throws CoordinatorLost. Where the coordinator does not
// take this worker, because it comes with other terms, calls throw an Error with its words.
class GrpcLink final : public Link {
public:
    // Does not wait for the coordinator to be there.
    explicit GrpcLink(const GrpcLinkOptions& options);
    ~GrpcLink() override;

    [[nodiscard]] Roster meet(const MeetRequest& request) override;
    [[nodiscard]] Task task_after(const CallPlace& place, int64_t number) override;
    [[nodiscard]] std::string done(const CallPlace& place, int64_t number, const std::string& said) override;
    void begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) override;
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most) override;
    [[nodiscard]] Coordinator::Agreed agree(const CallPlace& place, const GrainLedger& mine,
                                            bool wishes_to_stop) override;
    [[nodiscard]] Verdict vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) override;
    void leave() override;
    void tell_when_roster_ends(RosterWatch::Told told) override;
    [[nodiscard]] std::string ask(const std::string& subject, const std::string& question) override;
    void set(const std::string& key, const std::string& value) override;
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override;

private:
    struct Wire;
    class OpenQuestion;

    std::unique_ptr<Wire> wire_;
};

}  // namespace accrue
