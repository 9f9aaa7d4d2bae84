/* What may not be open when a snapshot is taken. */
#ifndef REPRISE_REFUSE_H
#define REPRISE_REFUSE_H

void snapshot_note_descriptors(void);
void snapshot_refuse_what_cannot_be_rewound(void);

#endif
