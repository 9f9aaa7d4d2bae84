/* Pages that hooks have written, in the image of one clone. */
#ifndef REPRISE_ADOPT_H
#define REPRISE_ADOPT_H

const char *snapshot_adopt_pages(void); /* NULL, or why not */
void snapshot_disown_pages(void);

#endif
