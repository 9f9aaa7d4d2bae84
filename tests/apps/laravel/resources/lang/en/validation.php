<?php
return ['required' => 'The :attribute is missing.', 'email' => 'The :attribute is no address.', 'max' => ['string' => 'The :attribute is longer than :max.', 'file' => 'The :attribute is larger than :max KiB.'], 'min' => ['string' => 'The :attribute is shorter than :min.'],
    'mimes' => 'The :attribute is not of type :values.', 'uploaded' => 'The :attribute did not arrive.', 'integer' => 'The :attribute is no number.', 'between' => ['numeric' => 'The :attribute is not in :min to :max.'], 'alpha' => 'The :attribute is more than letters.', 'file' => 'The :attribute is no file.'];
