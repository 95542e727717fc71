// What needs few of torch's headers, in one unit: reading them takes longer than all the rest.
#include "cuda_rows.cpp"
#include "known.cpp"
#include "rows.cpp"
