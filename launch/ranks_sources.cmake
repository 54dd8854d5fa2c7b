# Starting ranks, and what each rank does for its launcher.
set(COLIBRI_RANKS_SOURCES
  process_tree.cc
  rank_link.cc
  rank_signals.cc
  ranks.cc)
