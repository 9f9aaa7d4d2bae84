/* What PHP holds at the snapshot, and no descriptor shows. */
#ifndef REPRISE_HELD_H
#define REPRISE_HELD_H

void snapshot_settle_what_php_holds(void);

#endif
