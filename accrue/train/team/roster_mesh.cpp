#include "accrue/train/team/roster_mesh.h"

namespace accrue {

RosterMesh::RosterMesh(Link& link) : link_(link) {
    link_.tell_when_roster_ends([this](int64_t roster) {
        const std::lock_guard lock(mutex_);
        if (mesh_ && roster_ == roster) {
            mesh_->give_up("a member is gone");
        }
    });
}

RosterMesh::~RosterMesh() {
    link_.tell_when_roster_ends({});
}

// The last one ends without the lock: signs of life, which come with news of the roster, wait for nothing.
void RosterMesh::keep(std::unique_ptr<Mesh> mesh, int64_t roster) {
    const std::lock_guard lock(mutex_);
    mesh_.swap(mesh);
    roster_ = roster;
}

}  // namespace accrue
