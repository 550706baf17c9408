#pragma once

#include "accrue/dist/assignment.h"
#include "accrue/dist/reducer.h"

namespace accrue {

// The others, as a step sees them.
struct Workers {
    Assignment& assignment;
    Reducer& reducer;
};

}  // namespace accrue
