<?php
return ['failed' => 'These credentials are not known.'];
