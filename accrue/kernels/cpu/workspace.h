#pragma once

// The scratch bytes that CPU kernels take from the arena, as functions of shapes: the dry device counts by calling
// them.
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/product_plan.h"
