// Prepares find_object.cpp, before the first exception.
//
// Thread rule: called once, while there is one thread.
#pragma once

namespace ddprun::glibc {

void remember_own_program();

}  // namespace ddprun::glibc
