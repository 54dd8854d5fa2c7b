#pragma once
namespace colibri { inline bool drain_requested() { return false; } }
