#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "accrue/dist/exchange.h"
#include "accrue/dist/link.h"

namespace accrue {

// The mesh of the roster that a worker is in. A member that was cut off, or sleeps, closes no connection: whoever waits for it
// learns from the coordinator that it is gone, by the link, and waits no longer.
class RosterMesh {
public:
    explicit RosterMesh(Link& link);
    ~RosterMesh();
    RosterMesh(const RosterMesh&) = delete;
    RosterMesh& operator=(const RosterMesh&) = delete;

    // The mesh of that roster; none between two of them.
    void keep(std::unique_ptr<Mesh> mesh, int64_t roster);
    [[nodiscard]] Mesh& operator*() const { return *mesh_; }
    [[nodiscard]] Mesh* operator->() const { return mesh_.get(); }

private:
    Link& link_;
    std::mutex mutex_;  // of whose mesh it is
    std::unique_ptr<Mesh> mesh_;
    int64_t roster_ = 0;
};

}  // namespace accrue
